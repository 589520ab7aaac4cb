// Metadata of a GGUF file by key and kind, with errors that name file, key, expected and found.
#pragma once

#include <reprise/io/gguf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

class GgufFields {
 public:
  explicit GgufFields(const GgufFile& file) : file_(file) {}

  const Json* find(const std::string& key) const;

  /// The value, or nothing if there is no such key. Integers are 0 to 2^31 - 1: sizes, counts, ids.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> string(const std::string& key) const;
  /// Of strings.
  std::optional<std::vector<std::string>> strings(const std::string& key) const;
  /// Of integers or floats.
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

}  // namespace reprise::detail
