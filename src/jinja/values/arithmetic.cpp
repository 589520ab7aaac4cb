// Python's arithmetic: exact 64-bit integers, floor division, and + * % on texts and lists.
#include "jinja/builtins/format.h"
#include "jinja/values/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise::jinja {
namespace {

[[noreturn]] void refuse_overflow() {
  throw Failure("an integer is beyond 64 bits");
}

const char* symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return "+";
    case BinaryOp::Subtract:
      return "-";
    case BinaryOp::Multiply:
      return "*";
    case BinaryOp::Divide:
      return "/";
    case BinaryOp::FloorDivide:
      return "//";
    case BinaryOp::Modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t result = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) {
      refuse_overflow();
    }
    return result;
  }
  const int64_t quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) {
    return 0;
  }
  const int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      refuse_overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      refuse_overflow();
    }
  }
  return result;
}

void refuse_zero(bool is_zero, const char* message) {
  if (is_zero) {
    throw Failure(message);
  }
}

Value integer_binary(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case BinaryOp::Add:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::Subtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::Multiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::Divide:
      refuse_zero(b == 0, "division by zero");
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::FloorDivide:
      refuse_zero(b == 0, "integer division or modulo by zero");
      return Value(floor_divide(a, b));
    case BinaryOp::Modulo:
      refuse_zero(b == 0, "integer modulo by zero");
      return Value(floor_modulo(a, b));
    case BinaryOp::Power:
      if (b < 0) {
        refuse_zero(a == 0, "0.0 cannot be raised to a negative power");
        return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value(integer_power(a, b));
  }
  if (overflows) {
    refuse_overflow();
  }
  return Value(result);
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0) {
    return (b < 0) != (rest < 0) ? rest + b : rest;
  }
  return std::copysign(0.0, b);
}

double float_floor_divide(double a, double b) {
  const double rest = float_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) {
    return std::copysign(0.0, a / b);
  }
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double float_power(double a, double b) {
  refuse_zero(a == 0 && b < 0, "0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    throw Failure("a negative number to a fractional power is complex");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    throw Failure("(34, 'Numerical result out of range')");
  }
  return result;
}

Value float_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return Value(a + b);
    case BinaryOp::Subtract:
      return Value(a - b);
    case BinaryOp::Multiply:
      return Value(a * b);
    case BinaryOp::Divide:
      refuse_zero(b == 0, "float division by zero");
      return Value(a / b);
    case BinaryOp::FloorDivide:
      refuse_zero(b == 0, "float floor division by zero");
      return Value(float_floor_divide(a, b));
    case BinaryOp::Modulo:
      refuse_zero(b == 0, "float modulo");
      return Value(float_modulo(a, b));
    default:
      return Value(float_power(a, b));
  }
}

Value made_text(Runtime& runtime, TextBuilder text, bool is_markup) {
  return is_markup ? runtime.markup(std::move(text)) : runtime.text(std::move(text));
}

Value add_texts(Runtime& runtime, const Value& a, const Value& b) {
  const bool is_markup = a.is_markup() || b.is_markup();
  const Value left = is_markup ? escape_markup(runtime, a) : a;
  const Value right = is_markup ? escape_markup(runtime, b) : b;
  TextBuilder joined(runtime);
  joined.reserve(left.text_size() + right.text_size());
  joined.add(left.as_text(runtime));
  joined.add(right.as_text(runtime));
  return made_text(runtime, std::move(joined), is_markup);
}

Value add_items(Runtime& runtime, const Value& a, const Value& b) {
  ItemBuilder joined(runtime);
  joined.reserve(a.item_count() + b.item_count());
  joined.add(a.items(runtime));
  joined.add(b.items(runtime));
  return a.is_list() ? runtime.list(std::move(joined)) : runtime.tuple(std::move(joined));
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (value.is_text()) {
    TextBuilder result(runtime);
    result.add_repeated(value.as_text(runtime), count);
    return made_text(runtime, std::move(result), value.is_markup());
  }
  ItemBuilder result(runtime);
  size_t total = 0;
  if (__builtin_mul_overflow(count, value.item_count(), &total)) {
    total = std::numeric_limits<size_t>::max() / 4;  // which no budget has
  }
  result.reserve(total);
  for (size_t i = 0; i < count && total != 0; ++i) {
    result.add(value.items(runtime));
  }
  return value.is_list() ? runtime.list(std::move(result)) : runtime.tuple(std::move(result));
}

bool is_repeatable(const Value& value) {
  return value.is_text() || value.is_list() || value.is_tuple();
}

}  // namespace

Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  require_defined(a);
  if (op == BinaryOp::Modulo && a.is_text()) {
    return runtime.text(format_percent(runtime, a.as_text(runtime), b));
  }
  require_defined(b);
  if (a.is_integral() && b.is_integral()) {
    return integer_binary(op, a.as_int(), b.as_int());
  }
  if (a.is_number() && b.is_number()) {
    return float_binary(op, a.as_float(), b.as_float());
  }
  if (op == BinaryOp::Add && a.is_text() && b.is_text()) {
    return add_texts(runtime, a, b);
  }
  if (op == BinaryOp::Add && ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple()))) {
    return add_items(runtime, a, b);
  }
  if (op == BinaryOp::Add && a.is_text()) {
    throw Failure("can only concatenate str (not \"" + b.type_name() + "\") to str");
  }
  if (op == BinaryOp::Multiply && is_repeatable(a) && b.is_integral()) {
    return repeat(runtime, a, b.as_int());
  }
  if (op == BinaryOp::Multiply && a.is_integral() && is_repeatable(b)) {
    return repeat(runtime, b, a.as_int());
  }
  throw Failure(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" +
                a.type_name() + "' and '" + b.type_name() + "'");
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_float()) {
    return Value(-value.as_float());
  }
  if (value.is_integral()) {
    return integer_binary(BinaryOp::Subtract, 0, value.as_int());
  }
  throw Failure("bad operand type for unary -: '" + value.type_name() + "'");
}

Value plus(const Value& value) {
  require_defined(value);
  if (value.is_float()) {
    return value;
  }
  if (value.is_integral()) {
    return Value(value.as_int());
  }
  throw Failure("bad operand type for unary +: '" + value.type_name() + "'");
}

}  // namespace reprise::jinja
