// Reads the arguments of a call by position or by name, as a Python signature does.
#pragma once

#include "text/template/value.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::jinja {

/// Too many or unknown arguments are refused at once, a missing one when it is read, naming the
/// function.
class ArgumentReader {
 public:
  /// `names` in the order of the signature. A name that starts with '/' is positional only.
  ArgumentReader(std::string_view function,
                 const Arguments& arguments,
                 std::initializer_list<std::string_view> names);

  Value required();
  std::optional<Value> optional();

  int64_t required_int();
  int64_t optional_int(int64_t otherwise);
  bool optional_flag(bool otherwise);  ///< by truth
  std::string required_text();
  std::optional<std::string> optional_text();  ///< null and none alike

 private:
  std::string function_;
  const Arguments& arguments_;
  std::vector<std::string_view> names_;
  size_t next_ = 0;
};

/// For a function that takes none.
void refuse_arguments(std::string_view function, const Arguments& arguments);

/// `value` as an int for an argument; refuses floats as Python does.
int64_t to_index(const Value& value, std::string_view function);

}  // namespace reprise::jinja
