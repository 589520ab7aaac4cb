// Python's operators on values: truth, equality, order, membership and arithmetic.
#pragma once

#include "jinja/runtime.h"

namespace reprise::jinja {

enum class BinaryOp { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
enum class CompareOp { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };

bool is_true(const Value& value);
bool is_equal(Runtime& runtime, const Value& a, const Value& b);
bool is_less(Runtime& runtime, const Value& a, const Value& b);
bool contains(Runtime& runtime, const Value& container, const Value& item);
bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b);

/// Throws Failure where Python raises, and if an integer exceeds 64 bits.
Value binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

/// len(). Throws Failure if the value has no length.
size_t length_of(Runtime& runtime, const Value& value);
/// HTML-escapes text, unless it is marked as safe.
Value escape_markup(Runtime& runtime, const Value& value);

/// Throws Failure with the message of an undefined value.
void require_defined(const Value& value);

}  // namespace reprise::jinja
