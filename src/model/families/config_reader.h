// Typed access to the fields of one config.json. It remembers which fields were read: the others
// are unknown and become warnings.
#pragma once

#include <reprise/io/json.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace reprise {

class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string source);

  /// The field under the first of these names that is present and not null; null if there is none.
  const Json* find(std::initializer_list<const char*> names);

  int64_t size(std::initializer_list<const char*> names);    ///< required, positive
  int64_t layers(std::initializer_list<const char*> names);  ///< a size of at most some thousands
  int64_t size_or(std::initializer_list<const char*> names, int64_t fallback);
  int64_t count_or(const char* name, int64_t fallback);  ///< zero or more
  /// Like size_or(), but an explicit null means `none`, which differs from a missing field.
  int64_t size_or_none(const char* name, int64_t none, int64_t if_missing);
  std::optional<int64_t> token_id(const char* name);
  double number_or(std::initializer_list<const char*> names, double fallback);
  /// A number in a range, `least` excluded or not. An explicit null is not a number.
  enum class Least { Included, Excluded };
  double number_in(const char* name, double fallback, Least kind, double least, double most);
  bool flag_or(const char* name, bool fallback);
  bool is_null(const char* name);  ///< present and null
  std::string text_or(std::initializer_list<const char*> names, const std::string& fallback);

  /// Throws if the field is present with another value, since only this one is supported.
  void require(const char* name, const Json& value);
  /// Marks fields as known that do not change the computation.
  void ignore(std::initializer_list<const char*> names);

  /// Throws, naming file, field, expected and found value.
  [[noreturn]] void refuse(const std::string& field,
                           const std::string& expected,
                           const Json& found,
                           const std::string& more = "") const;
  const std::string& source() const { return source_; }
  const Json& json() const { return json_; }
  std::vector<std::string> unknown_fields() const;

 private:
  const Json& json_;
  std::string source_;
  std::set<std::string> known_;
};

}  // namespace reprise
