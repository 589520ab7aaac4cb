// Typed access to the metadata of a GGUF file. Errors name the file, the key, what was expected and
// what was found.
#pragma once

#include "io/gguf/gguf_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::io {

class GgufFields {
 public:
  explicit GgufFields(const GgufFile& file) : file_(file) {}

  const Json* find(const std::string& key) const;

  /// The value, or std::nullopt if there is no such key. Throws if it has another type. Integers
  /// (sizes, counts, ids) must be 0 to 2^31 - 1.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> string(const std::string& key) const;
  /// An array of strings.
  std::optional<std::vector<std::string>> strings(const std::string& key) const;
  /// An array of integers or floats.
  std::optional<std::vector<double>> numbers(const std::string& key) const;

  /// Throws if there is no such key.
  template <class T>
  T required(std::optional<T> value, const std::string& key) const {
    if (!value) {
      refuse(key, "a value", "none");
    }
    return *std::move(value);
  }

  [[noreturn]] void refuse(const std::string& key,
                           const std::string& expected,
                           const std::string& found) const;

 private:
  const GgufFile& file_;
};

}  // namespace reprise::io
