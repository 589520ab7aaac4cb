// Converts typed values to JSON. An array takes more memory than it takes in the file, so the
// elements of all arrays together are bounded.
#include "io/gguf/gguf_metadata.h"

#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace reprise::io {
namespace {

constexpr size_t kMaxKeyBytes = 65'535;
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMaxElements = uint64_t{1} << 24;  // in all arrays; a vocabulary is 2^18

enum class ValueType : uint32_t {
  Uint8 = 0,
  Int8 = 1,
  Uint16 = 2,
  Int16 = 3,
  Uint32 = 4,
  Int32 = 5,
  Float32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  Uint64 = 10,
  Int64 = 11,
  Float64 = 12,
};

class MetadataReader {
 public:
  explicit MetadataReader(GgufCursor& cursor) : cursor_(cursor) {}

  GgufMetadata read(uint64_t count) {
    GgufMetadata metadata;
    for (uint64_t i = 0; i < count; ++i) {
      std::string key = cursor_.string("the key of value " + std::to_string(i), kMaxKeyBytes);
      what_ = "key \"" + key + "\"";
      const auto type = static_cast<ValueType>(cursor_.number<uint32_t>(what_));
      const bool is_new = metadata.emplace(std::move(key), value(type, 0)).second;
      TORCH_CHECK(is_new, cursor_.where(), what_, " appears twice");
    }
    return metadata;
  }

 private:
  Json value(ValueType type, int depth) {
    switch (type) {
      case ValueType::Uint8:
        return cursor_.number<uint8_t>(what_);
      case ValueType::Int8:
        return cursor_.number<int8_t>(what_);
      case ValueType::Uint16:
        return cursor_.number<uint16_t>(what_);
      case ValueType::Int16:
        return cursor_.number<int16_t>(what_);
      case ValueType::Uint32:
        return cursor_.number<uint32_t>(what_);
      case ValueType::Int32:
        return cursor_.number<int32_t>(what_);
      case ValueType::Uint64:
        return cursor_.number<uint64_t>(what_);
      case ValueType::Int64:
        return cursor_.number<int64_t>(what_);
      case ValueType::Float32:
        return cursor_.number<float>(what_);
      case ValueType::Float64:
        return cursor_.number<double>(what_);
      case ValueType::Bool:
        return boolean();
      case ValueType::String:
        return cursor_.string(what_, cursor_.file_bytes());
      case ValueType::Array:
        return array(depth);
    }
    TORCH_CHECK(false,
                cursor_.where(),
                what_,
                ": expected a value type from 0 to 12, found ",
                static_cast<uint32_t>(type));
  }

  Json boolean() {
    const auto byte = cursor_.number<uint8_t>(what_);
    TORCH_CHECK(
        byte <= 1, cursor_.where(), what_, ": expected a bool of 0 or 1, found ", int{byte});
    return byte == 1;
  }

  Json array(int depth) {
    TORCH_CHECK(depth < kMaxArrayDepth,
                cursor_.where(),
                what_,
                ": arrays are nested more than ",
                kMaxArrayDepth,
                " deep");
    const auto type = static_cast<ValueType>(cursor_.number<uint32_t>(what_));
    const auto count = cursor_.number<uint64_t>(what_);
    TORCH_CHECK(count <= kMaxElements - elements_,
                cursor_.where(),
                what_,
                ": expected at most ",
                kMaxElements,
                " elements in all arrays, found ",
                count,
                " in this one");
    elements_ += count;
    Json::array_t items;
    for (uint64_t i = 0; i < count; ++i) {
      items.push_back(value(type, depth + 1));
    }
    return items;
  }

  GgufCursor& cursor_;
  std::string what_;  // the value being read, for messages
  uint64_t elements_ = 0;
};

}  // namespace

GgufMetadata read_gguf_metadata(GgufCursor& cursor, uint64_t count) {
  return MetadataReader(cursor).read(count);
}

}  // namespace reprise::io
