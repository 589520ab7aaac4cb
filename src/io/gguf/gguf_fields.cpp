// Typed access to GGUF metadata. Writers store the same key as integers of different widths, and
// floats in 32 bits: 1e-05 is stored as 9.99999974e-06 and returned as 1e-05.
#include "io/gguf/gguf_fields.h"

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace reprise::io {
namespace {

/// The double nearest to the shortest decimal that gives this float.
double shortest_decimal(double value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.begin(), text.end(), static_cast<float>(value)).ptr;
  double meant = value;
  std::from_chars(text.begin(), end, meant);
  return meant;
}

}  // namespace

const Json* GgufFields::find(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  return found == file_.metadata().end() ? nullptr : &found->second;
}

void GgufFields::refuse(const std::string& key,
                        const std::string& expected,
                        const std::string& found) const {
  constexpr size_t kLongest = 200;  // of a string from the file
  TORCH_CHECK(false,
              "[gguf] ",
              file_.path().string(),
              ": ",
              key,
              ": expected ",
              expected,
              ", found ",
              found.substr(0, kLongest));
}

std::optional<int64_t> GgufFields::integer(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool good = value->is_number_integer() &&
                    (value->is_number_unsigned() || value->get<int64_t>() >= 0) &&
                    value->get<uint64_t>() <= std::numeric_limits<int32_t>::max();
  if (!good) {
    refuse(key, "an integer from 0 to 2^31 - 1", kind_of(*value));
  }
  return value->get<int64_t>();
}

std::optional<double> GgufFields::number(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(key, "a finite number", value->is_number() ? "NaN or infinity" : kind_of(*value));
  }
  return value->is_number_float() ? shortest_decimal(value->get<double>()) : value->get<double>();
}

std::optional<bool> GgufFields::boolean(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    refuse(key, "a bool", kind_of(*value));
  }
  return value->get<bool>();
}

std::optional<std::string> GgufFields::string(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse(key, "a string", kind_of(*value));
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> GgufFields::strings(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_array()) {
    refuse(key, "an array of strings", kind_of(*value));
  }
  std::vector<std::string> strings;
  strings.reserve(value->size());
  for (const Json& item : *value) {
    if (!item.is_string()) {
      refuse(key, "an array of strings", "in it " + kind_of(item));
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::optional<std::vector<double>> GgufFields::numbers(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_array()) {
    refuse(key, "an array of numbers", kind_of(*value));
  }
  std::vector<double> numbers;
  numbers.reserve(value->size());
  for (const Json& item : *value) {
    if (!item.is_number() || !std::isfinite(item.get<double>())) {
      refuse(key,
             "an array of finite numbers",
             item.is_number() ? "in it NaN or infinity" : "in it " + kind_of(item));
    }
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

}  // namespace reprise::io
