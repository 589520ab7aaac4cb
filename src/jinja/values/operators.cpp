// Truth, equality, order and membership.
#include "jinja/values/operators.h"

#include "jinja/values/objects.h"
#include "jinja/values/repr.h"
#include "jinja/values/substring_search.h"
#include "jinja/values/unicode.h"

#include <algorithm>

namespace reprise::jinja {
namespace {

// Compares an int and a float exactly, without rounding the int: 2**53 + 1 != 2.0**53.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  const auto left = static_cast<long double>(a.is_float() ? a.as_float() : 0) +
                    static_cast<long double>(a.is_float() ? 0 : a.as_int());
  const auto right = static_cast<long double>(b.is_float() ? b.as_float() : 0) +
                     static_cast<long double>(b.is_float() ? 0 : b.as_int());
  return left < right ? -1 : left > right ? 1 : left == right ? 0 : 2;
}

bool are_equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) {
    return false;
  }
  const auto& entries = a.entries(runtime);
  return std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
    const Value* other = b.find(runtime, entry.first);
    return other != nullptr && is_equal(runtime, entry.second, *other);
  });
}

bool are_equal_items(Runtime& runtime, const Value& a, const Value& b) {
  bool are_equal = a.item_count() == b.item_count();
  for (size_t i = 0; are_equal && i < a.item_count(); ++i) {
    are_equal = is_equal(runtime, a.item_at(i), b.item_at(i));
  }
  return are_equal;
}

bool are_equal_ranges(const Range& a, const Range& b) {
  const int64_t size = a.size();
  return size == b.size() && (size == 0 || (a.start == b.start && (size == 1 || a.step == b.step)));
}

// Applies a comparison to a sign. For NaN none of <, ==, > holds.
bool orders(CompareOp op, int sign) {
  switch (op) {
    case CompareOp::Less:
      return sign == -1;
    case CompareOp::LessEqual:
      return sign == -1 || sign == 0;
    case CompareOp::Greater:
      return sign == 1;
    default:
      return sign == 1 || sign == 0;
  }
}

const char* symbol(CompareOp op) {
  switch (op) {
    case CompareOp::Less:
      return "<";
    case CompareOp::LessEqual:
      return "<=";
    case CompareOp::Greater:
      return ">";
    default:
      return ">=";
  }
}

bool order(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  const Runtime::Nesting nesting(runtime);
  runtime.step();
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    return orders(op, compare_numbers(a, b));
  }
  if (a.is_text() && b.is_text()) {
    // UTF-8 bytes sort in code point order.
    const int sign = a.as_text(runtime).compare(b.as_text(runtime));
    return orders(op, sign < 0 ? -1 : sign > 0 ? 1 : 0);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const size_t left = a.item_count();
    const size_t right = b.item_count();
    for (size_t i = 0; i < std::min(left, right); ++i) {
      if (!is_equal(runtime, a.item_at(i), b.item_at(i))) {
        return order(runtime, op, a.item_at(i), b.item_at(i));
      }
    }
    return orders(op, left < right ? -1 : left > right ? 1 : 0);
  }
  throw Failure(std::string("'") + symbol(op) + "' not supported between instances of '" +
                a.type_name() + "' and '" + b.type_name() + "'");
}

}  // namespace

void require_defined(const Value& value) {
  if (value.is_undefined()) {
    throw Failure(value.why_undefined());
  }
}

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) {
    return false;
  }
  if (value.is_number()) {
    return value.is_float() ? value.as_float() != 0 : value.as_int() != 0;
  }
  if (value.is_text()) {
    return value.text_size() != 0;
  }
  if (value.is_list() || value.is_tuple()) {
    return value.item_count() != 0;
  }
  if (value.is_dict()) {
    return value.as_dict().size() != 0;
  }
  if (value.is_range()) {
    return value.as_range().size() != 0;
  }
  const auto* view = value.as<DictView>();
  return view == nullptr || view->items().item_count() != 0;
}

bool is_equal(Runtime& runtime, const Value& a, const Value& b) {
  const Runtime::Nesting nesting(runtime);
  runtime.step();
  if (a.is_number() && b.is_number()) {
    return compare_numbers(a, b) == 0;
  }
  if (a.is_text() && b.is_text()) {
    return a.text_size() == b.text_size() && a.as_text(runtime) == b.as_text(runtime);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    return a.is_same(runtime, b) || are_equal_items(runtime, a, b);
  }
  if (a.is_dict() && b.is_dict()) {
    return &a.as_dict() == &b.as_dict() || are_equal_dicts(runtime, a.as_dict(), b.as_dict());
  }
  if (a.is_range() && b.is_range()) {
    return are_equal_ranges(a.as_range(), b.as_range());
  }
  if (a.is_undefined() || b.is_undefined()) {
    return a.is_undefined() && b.is_undefined();
  }
  const auto* left = a.as<DictView>();
  const auto* right = b.as<DictView>();
  if (left != nullptr && right != nullptr && left->type_name() != "dict_values" &&
      right->type_name() != "dict_values") {
    const Values& items = left->items().items(runtime);
    return items.size() == right->items().item_count() &&
           std::all_of(items.begin(), items.end(), [&](const Value& item) {
             return contains(runtime, right->items(), item);
           });
  }
  return a.is_same(runtime, b);
}

bool is_less(Runtime& runtime, const Value& a, const Value& b) {
  return order(runtime, CompareOp::Less, a, b);
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) {
      throw Failure("'in <string>' requires string as left operand, not " + item.type_name());
    }
    const SubstringSearch search(runtime, item.as_text(runtime));
    return search.find(container.as_text(runtime)) != std::string::npos;
  }
  if (container.is_dict()) {
    return container.as_dict().find(runtime, item) != nullptr;
  }
  if (!is_iterable(container)) {
    throw Failure("argument of type '" + container.type_name() + "' is not iterable");
  }
  Cursor cursor(runtime, container);
  for (Value candidate; cursor.next(candidate);) {
    if (candidate.is_same(runtime, item) || is_equal(runtime, candidate, item)) {
      return true;
    }
  }
  return false;
}

bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::Equal:
      return is_equal(runtime, a, b);
    case CompareOp::NotEqual:
      return !is_equal(runtime, a, b);
    case CompareOp::In:
      return contains(runtime, b, a);
    case CompareOp::NotIn:
      return !contains(runtime, b, a);
    default:
      return order(runtime, op, a, b);
  }
}

size_t length_of(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    return count_code_points(value.as_text(runtime));
  }
  if (value.is_list() || value.is_tuple()) {
    return value.item_count();
  }
  if (value.is_dict()) {
    return value.as_dict().size();
  }
  if (value.is_range()) {
    return static_cast<size_t>(value.as_range().size());
  }
  if (value.is_undefined()) {
    return 0;
  }
  if (value.is_object()) {
    if (const auto length = value.as_object().length(runtime)) {
      return *length;
    }
  }
  throw Failure("object of type '" + value.type_name() + "' has no len()");
}

Value escape_markup(Runtime& runtime, const Value& value) {
  if (value.is_markup()) {
    return value;
  }
  TextBuilder result(runtime);
  const Value text = to_text(runtime, value);
  for (const char c : text.as_text(runtime)) {
    switch (c) {
      case '&':
        result.add("&amp;");
        break;
      case '<':
        result.add("&lt;");
        break;
      case '>':
        result.add("&gt;");
        break;
      case '"':
        result.add("&#34;");
        break;
      case '\'':
        result.add("&#39;");
        break;
      default:
        result.add(c);
    }
  }
  return runtime.markup(std::move(result));
}

}  // namespace reprise::jinja
