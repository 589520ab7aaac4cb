// What a pickle in a file of torch.save is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::io {

/// Values refer to each other by their places in one list, so that a hostile pickle can neither
/// nest them until destructors overflow the stack, nor make them own each other in a circle.
using PickleIndex = uint32_t;

struct PickleValue {
  enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Text,
    Tuple,
    List,
    Dict,     ///< items: keys and values in turns
    Global,   ///< text: "module name"
    Storage,  ///< items: what its persistent id was made of
    Tensor,   ///< items: the arguments of its function
  };

  Kind kind = Kind::None;
  int64_t number = 0;  ///< Bool, Int
  std::string text;    ///< Text, Global
  std::vector<PickleIndex> items;
};

/// "a tuple", for messages.
const char* name_of(PickleValue::Kind kind);

struct Pickle {
  std::vector<PickleValue> values;
  PickleIndex top = 0;

  const PickleValue& operator[](PickleIndex index) const { return values[index]; }
};

}  // namespace reprise::io
