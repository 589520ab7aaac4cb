#include "model/families/config_reader.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <utility>

namespace reprise {

namespace {

// Larger than in any model; keeps products of two sizes far within 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 28;
constexpr int64_t kLargestId = int64_t{1} << 31;

std::string joined(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    text += text.empty() ? name : std::string(" or ") + name;
  }
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& json, std::string source)
    : json_(json), source_(std::move(source)) {
  TORCH_CHECK(
      json_.is_object(), "[config] ", source_, ": expected an object, found ", kind_of(json_));
}

const Json* ConfigReader::find(std::initializer_list<const char*> names) {
  const Json* found = nullptr;
  for (const char* name : names) {
    known_.insert(name);
    const auto field = json_.find(name);
    if (found == nullptr && field != json_.end() && !field->is_null()) {
      found = &*field;
    }
  }
  return found;
}

int64_t ConfigReader::size(std::initializer_list<const char*> names) {
  const Json* field = find(names);
  TORCH_CHECK(
      field != nullptr, "[config] ", source_, ": the field ", joined(names), " is missing.");
  if (!field->is_number_integer() || *field < 1 || *field > kLargestSize) {
    refuse(joined(names), "a positive integer of at most " + std::to_string(kLargestSize), *field);
  }
  return field->get<int64_t>();
}

int64_t ConfigReader::layers(std::initializer_list<const char*> names) {
  constexpr int64_t kMostLayers = 1 << 14;
  const int64_t count = size(names);
  if (count > kMostLayers) {
    refuse(joined(names), "at most " + std::to_string(kMostLayers) + " layers", count);
  }
  return count;
}

int64_t ConfigReader::size_or(std::initializer_list<const char*> names, int64_t fallback) {
  return find(names) == nullptr ? fallback : size(names);
}

int64_t ConfigReader::count_or(const char* name, int64_t fallback) {
  const Json* field = find({name});
  return field == nullptr ? fallback : *field == 0 ? 0 : size({name});
}

int64_t ConfigReader::size_or_none(const char* name, int64_t none, int64_t if_missing) {
  return json_.contains(name) ? size_or({name}, none) : size_or({name}, if_missing);
}

std::optional<int64_t> ConfigReader::token_id(const char* name) {
  const Json* field = find({name});
  if (field == nullptr) {
    return std::nullopt;
  }
  if (!field->is_number_integer() || *field > kLargestId) {
    refuse(name, "a token id", *field);
  }
  const auto id = field->get<int64_t>();
  return id < 0 ? std::nullopt : std::optional(id);  // -1 meant none in old files
}

double ConfigReader::number_or(std::initializer_list<const char*> names, double fallback) {
  const Json* field = find(names);
  if (field == nullptr) {
    return fallback;
  }
  if (!field->is_number() || !std::isfinite(field->get<double>())) {
    refuse(joined(names), "a number", *field);
  }
  return field->get<double>();
}

double ConfigReader::number_in(
    const char* name, double fallback, Least kind, double least, double most) {
  if (!json_.contains(name)) {
    known_.insert(name);
    return fallback;
  }
  const Json& field = json_.at(name);
  const double value = field.is_number() ? number_or({name}, fallback) : NAN;
  if (!(kind == Least::Excluded ? value > least : value >= least) || value > most) {
    refuse(name,
           c10::str("a number ",
                    kind == Least::Excluded ? "above " : "from ",
                    least,
                    kind == Least::Excluded ? ", at most " : " to ",
                    most),
           field);
  }
  return value;
}

bool ConfigReader::flag_or(const char* name, bool fallback) {
  const Json* field = find({name});
  if (field == nullptr) {
    return fallback;
  }
  if (!field->is_boolean()) {
    refuse(name, "true or false", *field);
  }
  return field->get<bool>();
}

bool ConfigReader::is_null(const char* name) {
  known_.insert(name);
  return json_.contains(name) && json_.at(name).is_null();
}

std::string ConfigReader::text_or(std::initializer_list<const char*> names,
                                  const std::string& fallback) {
  const Json* field = find(names);
  if (field == nullptr) {
    return fallback;
  }
  if (!field->is_string()) {
    refuse(joined(names), "a string", *field);
  }
  return field->get<std::string>();
}

void ConfigReader::require(const char* name, const Json& value) {
  const Json* field = find({name});
  if (field != nullptr && *field != value) {
    refuse(name, value.dump() + " (no other value is supported)", *field);
  }
}

void ConfigReader::ignore(std::initializer_list<const char*> names) {
  known_.insert(names.begin(), names.end());
}

void ConfigReader::refuse(const std::string& field,
                          const std::string& expected,
                          const Json& found,
                          const std::string& more) const {
  std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kShown = 120;
  if (shown.size() > kShown) {
    shown = shown.substr(0, kShown) + "...";
  }
  TORCH_CHECK(
      false, "[config] ", source_, ": ", field, ": expected ", expected, ", found ", shown, more);
}

std::vector<std::string> ConfigReader::unknown_fields() const {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : json_.items()) {
    if (!known_.contains(name) && !value.is_null()) {
      unknown.push_back(name);
    }
  }
  return unknown;
}

}  // namespace reprise
