// Converts given values to values of flags, and back to JSON.
#include "reprise/training/flags/flag_spec.h"
#include "reprise/training/flags/suggest.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <type_traits>

namespace reprise::app {

namespace {

constexpr int64_t kLargestCount = std::numeric_limits<int32_t>::max();
constexpr JsonLimits kJsonLimits{.max_bytes = size_t{1} << 16, .max_depth = 4};

[[noreturn]] void refuse(const std::string& where,
                         const std::string& expected,
                         const std::string& found) {
  TORCH_CHECK(false, where, ": expected ", expected, ", found \"", found, "\"");
}

std::string range_text(const FlagSpec& flag) {
  const auto number = [](double value) {
    const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
    return is_whole ? std::to_string(static_cast<int64_t>(value)) : c10::str(value);
  };
  if (std::isfinite(flag.most) && flag.excludes_least) {
    return " above " + number(flag.least) + " and up to " + number(flag.most);
  }
  if (std::isfinite(flag.most)) {
    return " from " + number(flag.least) + " to " + number(flag.most);
  }
  if (!std::isfinite(flag.least)) {
    return "";
  }
  return (flag.excludes_least ? " above " : " of at least ") + number(flag.least);
}

template <class Number>
Number parse_number(const FlagSpec& flag, const std::string& text, const std::string& where) {
  const std::string expected =
      (std::is_integral_v<Number> ? "a whole number" : "a number") + range_text(flag);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    refuse(where, expected, text);
  }
  const auto value = static_cast<double>(number);
  const bool is_too_small = flag.excludes_least ? value <= flag.least : value < flag.least;
  if (!std::isfinite(value) || is_too_small || value > flag.most) {
    refuse(where, expected, text);
  }
  // Counts are multiplied with each other. Seeds, which are unsigned, are not.
  if (std::is_same_v<Number, int64_t> && !std::isfinite(flag.most) && value > kLargestCount) {
    refuse(where, c10::str("a whole number up to ", kLargestCount), text);
  }
  return number;
}

bool parse_switch(const std::string& text, const std::string& where) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") {
    return true;
  }
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") {
    return false;
  }
  refuse(where, "true or false", text);
}

void parse(const FlagSpec&, const std::string& text, const std::string& where, bool& value) {
  value = parse_switch(text, where);
}

template <class Number>
requires(std::is_arithmetic_v<Number>) void parse(const FlagSpec& flag,
                                                  const std::string& text,
                                                  const std::string& where,
                                                  Number& value) {
  value = parse_number<Number>(flag, text, where);
}

void parse(const FlagSpec& flag,
           const std::string& text,
           const std::string& where,
           std::string& value) {
  TORCH_CHECK(flag.may_be_empty || !text.empty(), where, ": expected a value, found \"\"");
  if (flag.is_json_object) {
    const Json object = parse_json(text, where, kJsonLimits);
    TORCH_CHECK(object.is_object(), where, ": expected a JSON object, found ", kind_of(object));
    value = object.dump();
    return;
  }
  const std::string instead = flag.instead_of == nullptr ? "" : flag.instead_of(text);
  TORCH_CHECK(instead.empty(), where, ": ", text, ": ", instead);
  const auto& choices = flag.choices;
  TORCH_CHECK(choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end(),
              where,
              ": expected one of ",
              c10::Join(", ", choices),
              "; found \"",
              text,
              "\"",
              did_you_mean(nearest(text, choices)));
  value = text;
}

std::string single_text(const GivenValue& given, const char* expected) {
  TORCH_CHECK(given.value.is_string(),
              given.where,
              ": expected ",
              expected,
              ", found ",
              given.value.is_object() ? "a map" : "a list");
  return given.value.get<std::string>();
}

template <class Value>
void assign_to(Value& target, const FlagSpec& flag, const GivenValue& given) {
  parse(flag, single_text(given, "one value"), given.where, target);
}

template <class Value>
void assign_to(std::optional<Value>& target, const FlagSpec& flag, const GivenValue& given) {
  Value value{};
  assign_to(value, flag, given);
  target = std::move(value);
}

template <class Value>
void assign_to(std::vector<Value>& target, const FlagSpec& flag, const GivenValue& given) {
  const Json& value = given.value;
  TORCH_CHECK(!value.is_object(), given.where, ": expected a value or a list, found a map");
  TORCH_CHECK(!value.is_array() || value.size() <= flag.most_words,
              given.where,
              ": expected ",
              flag.most_words == 1 ? "one value" : "fewer values",
              ", found ",
              value.size());
  // Code relies on a choice; the list of a saved configuration is empty where nothing is chosen.
  TORCH_CHECK(!value.is_array() || !value.empty() || flag.choices.empty() || target.empty(),
              given.where,
              ": expected one of ",
              c10::Join(", ", flag.choices),
              "; found an empty list");
  std::vector<Value> values;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    parse(flag, item.get<std::string>(), given.where, values.emplace_back());
  }
  target = std::move(values);
}

void assign_to(std::string& target, const FlagSpec& flag, const GivenValue& given) {
  if (flag.joins_words && given.value.is_array()) {
    target = c10::Join(",", given.value.get<std::vector<std::string>>());
  } else if (flag.is_json_object && given.value.is_object()) {
    target = given.value.dump();
  } else {
    parse(flag, single_text(given, "one value"), given.where, target);
  }
}

// A column with its default name gets no entry, so that cache keys do not change.
void assign_key(std::map<std::string, std::string>& keys,
                const std::string& role,
                const FlagSpec& flag,
                const GivenValue& given) {
  std::string name;
  assign_to(name, flag, given);
  keys.erase(role);
  if (name != role) {
    keys[role] = std::move(name);
  }
}

template <class Value>
Json json_of(const FlagSpec&, const Value& value) {
  return value;
}

template <class Value>
Json json_of(const FlagSpec&, const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const FlagSpec& flag, const std::string& value) {
  if (value.empty() && !flag.may_be_empty) {
    return {};
  }
  return flag.is_json_object ? parse_json(value, "--" + flag.name, kJsonLimits) : Json(value);
}

}  // namespace

std::string expected_value(const FlagSpec& flag) {
  const auto& member = flag.member;
  const std::string list = flag.splits_at_commas ? ", or several, with commas or spaces between"
                           : flag.most_words > 1 ? ", or several"
                                                 : "";
  if (flag.is_switch()) {
    return "true or false; without a value, true";
  }
  if (std::holds_alternative<int64_t TrainingFlags::*>(member) ||
      std::holds_alternative<uint64_t TrainingFlags::*>(member)) {
    return "a whole number" + range_text(flag);
  }
  if (std::holds_alternative<double TrainingFlags::*>(member) ||
      std::holds_alternative<std::optional<double> TrainingFlags::*>(member) ||
      std::holds_alternative<std::vector<double> TrainingFlags::*>(member)) {
    return "a number" + range_text(flag) + list;
  }
  return (flag.is_json_object ? "a JSON object" : !flag.choices.empty() ? "a name" : "text") + list;
}

void assign(TrainingFlags& flags, const FlagSpec& flag, const GivenValue& given) {
  if (given.value.is_null()) {
    return;
  }
  json_text(given.value, given.where);  // throws for text that is not UTF-8 and could not be saved
  std::visit(
      [&](const auto& member) {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, KeyOfRows>) {
          assign_key(flags.keys, member.role, flag, given);
        } else {
          assign_to(flags.*member, flag, given);
        }
      },
      flag.member);
}

Json value_of(const TrainingFlags& flags, const FlagSpec& flag) {
  return std::visit(
      [&](const auto& member) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, KeyOfRows>) {
          const auto key = flags.keys.find(member.role);
          return key == flags.keys.end() ? member.role : key->second;
        } else {
          return json_of(flag, flags.*member);
        }
      },
      flag.member);
}

}  // namespace reprise::app
