// Reads a JSON object field by field. Errors name the file, the field, what was expected and what
// was found.
#pragma once

#include <reprise/io/json.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

class JsonFields {
 public:
  /// `path` names this object in error messages: "normalizer.normalizers[2]"; `part` is the tag of
  /// the messages. Throws unless `object` is a JSON object. Keeps a reference to it.
  JsonFields(const Json& object,
             std::string source,
             std::string path,
             std::string part = "tokenizer");

  const std::string& source() const { return source_; }
  const std::string& path() const { return path_; }

  bool has(std::string_view key) const;           ///< present and not null
  const Json& value(std::string_view key) const;  ///< throws if missing or null

  std::string string(std::string_view key) const;
  std::optional<std::string> optional_string(std::string_view key) const;
  bool boolean(std::string_view key, std::optional<bool> otherwise = {}) const;
  int64_t integer(std::string_view key, int64_t low, int64_t high) const;
  double number(std::string_view key) const;
  char32_t character(std::string_view key) const;  ///< a string of one character
  JsonFields object(std::string_view key) const;
  /// The elements of an array as objects.
  std::vector<JsonFields> objects(std::string_view key) const;
  const Json& array(std::string_view key) const;

  /// Throws if there is any other field, because it would be ignored.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  /// Throws: the field has the unsupported value `found`.
  [[noreturn]] void refuse(std::string_view key,
                           const std::string& expected,
                           const std::string& found) const;

 private:
  const Json& typed(std::string_view key, bool fits, const Json& found, const char* expected) const;
  std::string name(std::string_view key) const;

  const Json* object_;
  std::string source_;
  std::string path_;
  std::string part_;
};

/// A value for an error message: its kind, and the value itself if it is short.
std::string describe(const Json& value);

}  // namespace reprise::text
