// Filters that return numbers, and default().
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/values/numbers.h"
#include "jinja/values/operators.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace reprise::jinja {
namespace {

Value absolute(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("abs", arguments);
  require_defined(subject);
  if (subject.is_float()) {
    return Value(std::abs(subject.as_float()));
  }
  if (!subject.is_integral()) {
    throw Failure("bad operand type for abs(): '" + subject.type_name() + "'");
  }
  return subject.as_int() < 0 ? negate(subject) : Value(subject.as_int());
}

Value with_default(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "default", arguments, {"default_value", "boolean"});
  const Value otherwise = reader.optional().value_or(Value::literal(""));
  const bool by_truth = reader.optional_flag(false);
  return subject.is_undefined() || (by_truth && !is_true(subject)) ? otherwise : subject;
}

Value to_int(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "int", arguments, {"default", "base"});
  const Value otherwise = reader.optional().value_or(Value(int64_t{0}));
  const int64_t base = reader.optional_int(10);
  require_defined(subject);
  if (subject.is_integral()) {
    return Value(subject.as_int());
  }
  std::optional<double> number;
  if (subject.is_text()) {
    if (const auto whole = parse_integer(runtime, subject.as_text(runtime), base)) {
      return Value(*whole);
    }
    number = parse_float(runtime, subject.as_text(runtime));
  } else if (subject.is_float()) {
    number = subject.as_float();
    if (std::isinf(*number)) {
      throw Failure("cannot convert float infinity to integer");
    }
  }
  if (!number || !std::isfinite(*number)) {
    return otherwise;
  }
  if (!(std::abs(*number) < 9.2233720368547748e18)) {
    throw Failure("an integer is beyond 64 bits");
  }
  return Value(static_cast<int64_t>(*number));
}

Value to_float(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "float", arguments, {"default"});
  const Value otherwise = reader.optional().value_or(Value(0.0));
  require_defined(subject);
  if (subject.is_number()) {
    return Value(subject.as_float());
  }
  const auto number =
      subject.is_text() ? parse_float(runtime, subject.as_text(runtime)) : std::nullopt;
  return number ? Value(*number) : otherwise;
}

Value rounded(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "round", arguments, {"precision", "method"});
  const auto precision = reader.optional();
  const std::string_view method = reader.optional_text().value_or("common");
  if (method != "common" && method != "ceil" && method != "floor") {
    throw Failure("method must be common, ceil or floor");
  }
  require_defined(subject);
  if (!subject.is_number()) {
    throw Failure("round expects a number, found '" + subject.type_name() + "'");
  }
  const int64_t digits = precision && !precision->is_none() ? to_index(*precision, "round") : 0;
  if (method == "common") {
    const bool to_whole = precision && precision->is_none();
    return round_number(subject, digits, to_whole);
  }
  const Value scale = binary(runtime, BinaryOp::Power, Value(int64_t{10}), Value(digits));
  const Value scaled = binary(runtime, BinaryOp::Multiply, subject, scale);
  const double whole =
      method == "ceil" ? std::ceil(scaled.as_float()) : std::floor(scaled.as_float());
  return Value(whole / scale.as_float());
}

Value file_size(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  static constexpr std::array<const char*, 8> kDecimal = {
      "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr std::array<const char*, 8> kBinary = {
      "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  ArgumentReader reader(runtime, "filesizeformat", arguments, {"binary"});
  const bool is_binary = reader.optional_flag(false);
  const auto bytes = subject.is_number() ? std::optional<double>(subject.as_float())
                     : subject.is_text() ? parse_float(runtime, subject.as_text(runtime))
                                         : std::nullopt;
  if (!bytes || !std::isfinite(*bytes)) {
    throw Failure("filesizeformat expects a number, found '" + subject.type_name() + "'");
  }
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) {
    return Value::literal("1 Byte");
  }
  std::array<char, 400> buffer{};
  if (*bytes < base) {
    std::snprintf(buffer.data(), buffer.size(), "%.0f Bytes", std::trunc(*bytes));
    return runtime.text(std::string_view(buffer.data()));
  }
  double unit = base * base;
  size_t index = 0;
  for (; index + 1 < kDecimal.size() && *bytes >= unit; ++index) {
    unit *= base;
  }
  const char* name = is_binary ? kBinary.at(index) : kDecimal.at(index);
  std::snprintf(buffer.data(), buffer.size(), "%.1f %s", base * *bytes / unit, name);
  return runtime.text(std::string_view(buffer.data()));
}

constexpr auto kNumberFilters = std::to_array<Filter>({
    {"abs", absolute},
    {"d", with_default},
    {"default", with_default},
    {"filesizeformat", file_size},
    {"float", to_float},
    {"int", to_int},
    {"round", rounded},
});

}  // namespace

std::span<const Filter> number_filters() {
  return kNumberFilters;
}

}  // namespace reprise::jinja
