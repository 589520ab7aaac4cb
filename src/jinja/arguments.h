// Binds the arguments of a call by position or by name, like a Python signature.
#pragma once

#include "jinja/values/value.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::jinja {

/// Throws Failure for too many or unknown arguments in the constructor, and for a missing argument
/// when it is read. Messages name the function.
class ArgumentReader {
 public:
  /// `names` in the order of the signature. A name that starts with '/' is positional only.
  ArgumentReader(Budget& budget,
                 std::string_view function,
                 const Arguments& arguments,
                 std::initializer_list<std::string_view> names);

  Value required();
  std::optional<Value> optional();

  int64_t required_int();
  int64_t optional_int(int64_t otherwise);
  bool optional_flag(bool otherwise);  ///< by Python's truth value
  // Views into the arguments.
  std::string_view required_text();
  std::optional<std::string_view> optional_text();  ///< std::nullopt if absent or none

 private:
  const Value* next();
  [[noreturn]] void fail_missing(std::string_view name) const;

  Budget& budget_;
  std::string function_;
  const Arguments& arguments_;
  std::vector<std::string_view> names_;
  size_t next_ = 0;
};

/// For a function without arguments.
void refuse_arguments(std::string_view function, const Arguments& arguments);

/// An argument as an int. Refuses floats, like Python.
int64_t to_index(const Value& value, std::string_view function);

}  // namespace reprise::jinja
