// jinja2's tests.
#include "jinja/builtins/tests.h"

#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/string_methods.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

template <bool (Value::*kind)() const>
bool is_kind(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("test", arguments);
  return (subject.*kind)();
}

template <CompareOp op>
bool compares(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "comparison test", arguments, {"other"});
  return compare(runtime, op, subject, reader.required());
}

bool leaves_rest(Runtime& runtime, const Value& subject, int64_t divisor, int64_t rest) {
  const Value modulo = binary(runtime, BinaryOp::Modulo, subject, Value(divisor));
  return is_equal(runtime, modulo, Value(rest));
}

bool is_odd(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("odd", arguments);
  return leaves_rest(runtime, subject, 2, 1);
}

bool is_even(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("even", arguments);
  return leaves_rest(runtime, subject, 2, 0);
}

bool is_divisible(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "divisibleby", arguments, {"num"});
  const Value modulo = binary(runtime, BinaryOp::Modulo, subject, reader.required());
  return is_equal(runtime, modulo, Value(int64_t{0}));
}

bool is_defined(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("defined", arguments);
  return !subject.is_undefined();
}

bool is_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("filter", arguments);
  hash_of(runtime, subject);  // like Python, refuses unhashable values
  return subject.is_text() && find_filter(subject.as_text(runtime)) != nullptr;
}

bool is_test(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("test", arguments);
  hash_of(runtime, subject);
  return subject.is_text() && find_test(subject.as_text(runtime)) != nullptr;
}

bool is_false(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("false", arguments);
  return subject.is_bool() && !subject.as_bool();
}

bool is_the_true(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("true", arguments);
  return subject.is_bool() && subject.as_bool();
}

bool is_lower_case(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("lower", arguments);
  const Value text = to_text(runtime, subject);
  return is_lower_text(text.as_text(runtime));
}

bool is_upper_case(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("upper", arguments);
  const Value text = to_text(runtime, subject);
  return is_upper_text(text.as_text(runtime));
}

// Python's notion of a sequence: has a length and __getitem__, so dicts and undefined count too.
bool is_sequence(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("sequence", arguments);
  return subject.is_text() || subject.is_list() || subject.is_tuple() || subject.is_dict() ||
         subject.is_range() || subject.is_undefined();
}

bool is_iterable_value(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("iterable", arguments);
  return is_iterable(subject);
}

bool is_callable(Runtime&, const Value& subject, const Arguments& arguments) {
  refuse_arguments("callable", arguments);
  return subject.is_undefined() || (subject.is_object() && subject.as_object().is_callable());
}

bool is_same_as(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "sameas", arguments, {"other"});
  return subject.is_same(runtime, reader.required());
}

bool is_in(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "in", arguments, {"seq"});
  return contains(runtime, reader.required(), subject);
}

constexpr auto kTests = std::to_array<Test>({
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"defined", is_defined},
    {"undefined", is_kind<&Value::is_undefined>},
    {"filter", is_filter},
    {"test", is_test},
    {"none", is_kind<&Value::is_none>},
    {"boolean", is_kind<&Value::is_bool>},
    {"false", is_false},
    {"true", is_the_true},
    {"integer", is_kind<&Value::is_int>},
    {"float", is_kind<&Value::is_float>},
    {"lower", is_lower_case},
    {"upper", is_upper_case},
    {"string", is_kind<&Value::is_text>},
    {"mapping", is_kind<&Value::is_dict>},
    {"number", is_kind<&Value::is_number>},
    {"sequence", is_sequence},
    {"iterable", is_iterable_value},
    {"callable", is_callable},
    {"sameas", is_same_as},
    {"escaped", is_kind<&Value::is_markup>},
    {"in", is_in},
    {"==", compares<CompareOp::Equal>},
    {"eq", compares<CompareOp::Equal>},
    {"equalto", compares<CompareOp::Equal>},
    {"!=", compares<CompareOp::NotEqual>},
    {"ne", compares<CompareOp::NotEqual>},
    {">", compares<CompareOp::Greater>},
    {"gt", compares<CompareOp::Greater>},
    {"greaterthan", compares<CompareOp::Greater>},
    {">=", compares<CompareOp::GreaterEqual>},
    {"ge", compares<CompareOp::GreaterEqual>},
    {"<", compares<CompareOp::Less>},
    {"lt", compares<CompareOp::Less>},
    {"lessthan", compares<CompareOp::Less>},
    {"<=", compares<CompareOp::LessEqual>},
    {"le", compares<CompareOp::LessEqual>},
});

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* found = std::find_if(
      kTests.begin(), kTests.end(), [&](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : found;
}

}  // namespace reprise::jinja
