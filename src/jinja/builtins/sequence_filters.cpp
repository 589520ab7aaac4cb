// Filters on sequences as a whole: order, length, groups, parts.
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/values/attribute_getter.h"
#include "jinja/values/attributes.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"
#include "jinja/values/repr.h"
#include "jinja/values/sorting.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

Value length(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("length", arguments);
  return Value(static_cast<int64_t>(length_of(runtime, subject)));
}

Value to_list(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("list", arguments);
  return runtime.list(to_values(runtime, subject));
}

Value first(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("first", arguments);
  Cursor cursor(runtime, subject);
  Value item;
  return cursor.next(item) ? item : Value::undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("last", arguments);
  if (subject.as<Iterator>() != nullptr || !is_iterable(subject)) {
    throw Failure("'" + subject.type_name() + "' object is not reversible");
  }
  const Values items = to_values(runtime, subject);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reversed(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("reverse", arguments);
  if (subject.is_text()) {
    CodePoints code_points = decode(subject.as_text());
    std::reverse(code_points.begin(), code_points.end());
    return runtime.text(encode(code_points));
  }
  if (!is_iterable(subject)) {
    throw Failure("argument must be iterable");
  }
  Values items = to_values(runtime, subject);
  std::reverse(items.begin(), items.end());
  if (subject.as<Iterator>() != nullptr) {
    return runtime.list(std::move(items));
  }
  return make_iterator_over(runtime, subject.type_name() + "_reverseiterator", std::move(items));
}

Value join_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("join", arguments, {"d", "attribute"});
  const std::string separator = to_text(runtime, reader.optional().value_or(Value::text("")));
  const AttributeGetter getter(reader.optional());
  std::string result;
  bool is_first = true;
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    const std::string text = to_text(runtime, getter.get(runtime, item));
    runtime.charge(text.size() + separator.size());
    result += std::exchange(is_first, false) ? "" : separator;
    result += text;
  }
  return runtime.text(std::move(result));
}

Value sum(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("sum", arguments, {"attribute", "start"});
  const AttributeGetter getter(reader.optional());
  Value total = reader.optional().value_or(Value(int64_t{0}));
  if (total.is_text()) {
    throw Failure("sum() can't sum strings [use ''.join(seq) instead]");
  }
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    total = binary(runtime, BinaryOp::Add, total, getter.get(runtime, item));
  }
  return total;
}

Value extreme(Runtime& runtime,
              const Value& subject,
              const Arguments& arguments,
              CompareOp better) {
  ArgumentReader reader(
      better == CompareOp::Less ? "min" : "max", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = reader.optional_flag(false);
  const AttributeGetter getter(reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  Cursor cursor(runtime, subject);
  Value best;
  if (!cursor.next(best)) {
    return Value::undefined("No aggregated item, sequence was empty.");
  }
  Value best_key = getter.get(runtime, best);
  for (Value item; cursor.next(item);) {
    Value key = getter.get(runtime, item);
    if (compare(runtime, better, key, best_key)) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Value minimum(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return extreme(runtime, subject, arguments, CompareOp::Less);
}

Value maximum(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  return extreme(runtime, subject, arguments, CompareOp::Greater);
}

Value sorted(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool is_reversed = reader.optional_flag(false);
  const bool case_sensitive = reader.optional_flag(false);
  const MultiAttributeGetter getter(reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  return runtime.list(sort_by(
      runtime,
      to_values(runtime, subject),
      [&](const Value& item) { return getter.get(runtime, item); },
      is_reversed ? Direction::Down : Direction::Up));
}

Value dict_sorted(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const Case letters = reader.optional_flag(false) ? Case::Kept : Case::Ignored;
  const std::string by = reader.optional_text().value_or("key");
  const bool is_reversed = reader.optional_flag(false);
  if (by != "key" && by != "value") {
    throw Failure("You can only sort by either \"key\" or \"value\"");
  }
  require_defined(subject);
  if (!subject.is_dict()) {
    throw Failure("dictsort expects a dict, found '" + subject.type_name() + "'");
  }
  Values pairs;
  for (const auto& [key, value] : subject.as_dict().entries()) {
    pairs.push_back(runtime.tuple({key, value}));
  }
  return runtime.list(sort_by(
      runtime,
      std::move(pairs),
      [&](const Value& pair) {
        return fold_case(runtime, pair.items()[by == "key" ? 0 : 1], letters);
      },
      is_reversed ? Direction::Down : Direction::Up));
}

Value unique(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = reader.optional_flag(false);
  const AttributeGetter getter(reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  auto cursor = std::make_shared<Cursor>(runtime, subject);
  return make_iterator(
      runtime, "generator", [getter, cursor, seen = Dict()](Runtime& inner, Value& item) mutable {
        while (cursor->next(item)) {
          const Value key = getter.get(inner, item);
          if (seen.find(key) == nullptr) {
            inner.charge(sizeof(Dict::Entry));
            seen.set(key, Value(true));
            return true;
          }
        }
        return false;
      });
}

Value grouped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("groupby", arguments, {"attribute", "default", "case_sensitive"});
  const Value attribute = reader.required();
  const auto otherwise = reader.optional();
  const Case letters = reader.optional_flag(false) ? Case::Kept : Case::Ignored;
  const AttributeGetter key_of(attribute, letters, otherwise);
  const AttributeGetter shown(attribute, Case::Kept, otherwise);
  const Values items = sort_by(
      runtime,
      to_values(runtime, subject),
      [&](const Value& item) { return key_of.get(runtime, item); },
      Direction::Up);
  Values groups;
  for (size_t i = 0; i < items.size();) {
    const Value key = key_of.get(runtime, items[i]);
    Values members;
    const size_t start = i;
    while (i < items.size() && is_equal(runtime, key_of.get(runtime, items[i]), key)) {
      members.push_back(items[i++]);
    }
    if (i == start) {  // not equal to itself: NaN
      members.push_back(items[i++]);
    }
    groups.push_back(
        runtime.group(shown.get(runtime, items[start]), runtime.list(std::move(members))));
  }
  return runtime.list(std::move(groups));
}

Value batched(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("batch", arguments, {"linecount", "fill_with"});
  const int64_t size = reader.required_int();
  const Value fill = reader.optional().value_or(Value());
  Values batches;
  Values batch;
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(runtime.list(std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (!fill.is_none() && static_cast<int64_t>(batch.size()) < size) {
      runtime.charge(static_cast<size_t>(size), sizeof(Value));
      batch.resize(static_cast<size_t>(size), fill);
    }
    batches.push_back(runtime.list(std::move(batch)));
  }
  return make_iterator_over(runtime, "generator", std::move(batches));
}

Value sliced(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("slice", arguments, {"slices", "fill_with"});
  const int64_t count = reader.required_int();
  const Value fill = reader.optional().value_or(Value());
  const Values items = to_values(runtime, subject);
  if (count == 0) {
    throw Failure("integer division or modulo by zero");
  }
  const auto total = static_cast<int64_t>(items.size());
  Values slices;
  int64_t start = 0;
  for (int64_t i = 0; i < count; ++i) {
    runtime.step();
    const bool has_extra = i < total % count;
    const int64_t end = start + total / count + (has_extra ? 1 : 0);
    Values part(items.begin() + start, items.begin() + end);
    if (!fill.is_none() && !has_extra) {
      part.push_back(fill);
    }
    slices.push_back(runtime.list(std::move(part)));
    start = end;
  }
  return make_iterator_over(runtime, "generator", std::move(slices));
}

Value items_of(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("items", arguments);
  Values pairs;
  if (subject.is_dict()) {
    for (const auto& [key, value] : subject.as_dict().entries()) {
      pairs.push_back(runtime.tuple({key, value}));
    }
  } else if (!subject.is_undefined()) {
    throw Failure("Can only get item pairs from a mapping.");
  }
  return make_iterator_over(runtime, "generator", std::move(pairs));
}

Value attribute_of(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader("attr", arguments, {"name"});
  return get_only_attribute(runtime, subject, reader.required_text());
}

constexpr auto kSequenceFilters = std::to_array<Filter>({
    {"attr", attribute_of},
    {"batch", batched},
    {"count", length},
    {"dictsort", dict_sorted},
    {"first", first},
    {"groupby", grouped},
    {"items", items_of},
    {"join", join_filter},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"max", maximum},
    {"min", minimum},
    {"reverse", reversed},
    {"slice", sliced},
    {"sort", sorted},
    {"sum", sum},
    {"unique", unique},
});

}  // namespace

std::span<const Filter> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace reprise::jinja
