// Filters on sequences as a whole: order, length, groups, parts.
#include "jinja/arguments.h"
#include "jinja/builtins/filters.h"
#include "jinja/builtins/methods.h"
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

Value listed(Runtime& runtime, Values items) {
  return runtime.list(ItemBuilder(runtime, std::move(items)));
}

Value length(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("length", arguments);
  return Value(static_cast<int64_t>(length_of(runtime, subject)));
}

Value to_list(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("list", arguments);
  return runtime.list(to_items(runtime, subject));
}

Value first(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("first", arguments);
  Cursor cursor(runtime, subject);
  Value item;
  return cursor.next(item) ? item : runtime.undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("last", arguments);
  if (subject.as<Iterator>() != nullptr || !is_iterable(subject)) {
    throw Failure("'" + subject.type_name() + "' object is not reversible");
  }
  const Values items = to_values(runtime, subject);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value reversed(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("reverse", arguments);
  if (subject.is_text()) {
    const std::string_view text = subject.as_text(runtime);
    TextBuilder result(runtime);
    result.reserve(text.size());
    for (size_t position = text.size(); position > 0;) {
      result.add_code_point(previous_code_point(text, position));
    }
    return runtime.text(std::move(result));
  }
  if (!is_iterable(subject)) {
    throw Failure("argument must be iterable");
  }
  const Values forwards = to_values(runtime, subject);
  ItemBuilder items(runtime);
  items.reserve(forwards.size());
  std::for_each(forwards.rbegin(), forwards.rend(), [&](const Value& item) { items.add(item); });
  if (subject.as<Iterator>() != nullptr) {
    return runtime.list(std::move(items));
  }
  return make_iterator_over(runtime, subject.type_name() + "_reverseiterator", std::move(items));
}

Value join_filter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "join", arguments, {"d", "attribute"});
  const Value separator = to_text(runtime, reader.optional().value_or(Value::literal("")));
  const AttributeGetter getter(runtime, reader.optional());
  TextBuilder result(runtime);
  bool is_first = true;
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    if (!std::exchange(is_first, false)) {
      result.add(separator.as_text(runtime));
    }
    write_text(runtime, result, getter.get(runtime, item));
  }
  return runtime.text(std::move(result));
}

Value sum(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "sum", arguments, {"attribute", "start"});
  const AttributeGetter getter(runtime, reader.optional());
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
  ArgumentReader reader(runtime,
                        better == CompareOp::Less ? "min" : "max",
                        arguments,
                        {"case_sensitive", "attribute"});
  const bool case_sensitive = reader.optional_flag(false);
  const AttributeGetter getter(
      runtime, reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  Cursor cursor(runtime, subject);
  Value best;
  if (!cursor.next(best)) {
    return runtime.undefined("No aggregated item, sequence was empty.");
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
  ArgumentReader reader(runtime, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool is_reversed = reader.optional_flag(false);
  const bool case_sensitive = reader.optional_flag(false);
  const MultiAttributeGetter getter(
      runtime, reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  return listed(runtime,
                sort_by(
                    runtime,
                    to_values(runtime, subject),
                    [&](const Value& item) { return getter.get(runtime, item); },
                    is_reversed ? Direction::Down : Direction::Up));
}

Value dict_sorted(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const Case letters = reader.optional_flag(false) ? Case::Kept : Case::Ignored;
  const std::string_view by = reader.optional_text().value_or("key");
  const bool is_reversed = reader.optional_flag(false);
  if (by != "key" && by != "value") {
    throw Failure("You can only sort by either \"key\" or \"value\"");
  }
  require_defined(subject);
  if (!subject.is_dict()) {
    throw Failure("dictsort expects a dict, found '" + subject.type_name() + "'");
  }
  const size_t sorted_part = by == "key" ? 0 : 1;
  return listed(
      runtime,
      sort_by(
          runtime,
          dict_pairs(runtime, subject.as_dict()).take(),
          [&](const Value& pair) { return fold_case(runtime, pair.item_at(sorted_part), letters); },
          is_reversed ? Direction::Down : Direction::Up));
}

Value unique(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "unique", arguments, {"case_sensitive", "attribute"});
  const bool case_sensitive = reader.optional_flag(false);
  struct State {
    AttributeGetter getter;
    Cursor cursor;
    Dict seen;
  };
  const AttributeGetter getter(
      runtime, reader.optional(), case_sensitive ? Case::Kept : Case::Ignored);
  auto state = std::make_shared<State>(State{getter, Cursor(runtime, subject), Dict()});
  return make_iterator(runtime, "generator", [state](Runtime& inner, Value& item) {
    while (state->cursor.next(item)) {
      const Value key = state->getter.get(inner, item);
      if (state->seen.find(inner, key) == nullptr) {
        state->seen.set(inner, key, Value(true));
        return true;
      }
    }
    return false;
  });
}

Value grouped(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "groupby", arguments, {"attribute", "default", "case_sensitive"});
  const Value attribute = reader.required();
  const auto otherwise = reader.optional();
  const Case letters = reader.optional_flag(false) ? Case::Kept : Case::Ignored;
  const AttributeGetter key_of(runtime, attribute, letters, otherwise);
  const AttributeGetter shown(runtime, attribute, Case::Kept, otherwise);
  const Values items = sort_by(
      runtime,
      to_values(runtime, subject),
      [&](const Value& item) { return key_of.get(runtime, item); },
      Direction::Up);
  ItemBuilder groups(runtime);
  for (size_t i = 0; i < items.size();) {
    const Value key = key_of.get(runtime, items[i]);
    ItemBuilder members(runtime);
    const size_t start = i;
    while (i < items.size() && is_equal(runtime, key_of.get(runtime, items[i]), key)) {
      members.add(items[i++]);
    }
    if (i == start) {  // not equal to itself: NaN
      members.add(items[i++]);
    }
    groups.add(runtime.group(shown.get(runtime, items[start]), runtime.list(std::move(members))));
  }
  return runtime.list(std::move(groups));
}

Value batched(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "batch", arguments, {"linecount", "fill_with"});
  const int64_t size = reader.required_int();
  const Value fill = reader.optional().value_or(Value());
  ItemBuilder batches(runtime);
  ItemBuilder batch(runtime);
  Cursor cursor(runtime, subject);
  for (Value item; cursor.next(item);) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.add(runtime.list(std::exchange(batch, ItemBuilder(runtime))));
    }
    batch.add(item);
  }
  if (!batch.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(batch.size()) < size) {
      batch.add(fill);
    }
    batches.add(runtime.list(std::move(batch)));
  }
  return make_iterator_over(runtime, "generator", std::move(batches));
}

Value sliced(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "slice", arguments, {"slices", "fill_with"});
  const int64_t count = reader.required_int();
  const Value fill = reader.optional().value_or(Value());
  const Values items = to_values(runtime, subject);
  if (count == 0) {
    throw Failure("integer division or modulo by zero");
  }
  const auto total = static_cast<int64_t>(items.size());
  ItemBuilder slices(runtime);
  int64_t start = 0;
  for (int64_t i = 0; i < count; ++i) {
    runtime.step();
    const bool has_extra = i < total % count;
    const int64_t end = start + total / count + (has_extra ? 1 : 0);
    ItemBuilder part(runtime);
    for (; start < end; ++start) {
      part.add(items[static_cast<size_t>(start)]);
    }
    if (!fill.is_none() && !has_extra) {
      part.add(fill);
    }
    slices.add(runtime.list(std::move(part)));
  }
  return make_iterator_over(runtime, "generator", std::move(slices));
}

Value items_of(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  refuse_arguments("items", arguments);
  ItemBuilder pairs(runtime);
  if (subject.is_dict()) {
    pairs = dict_pairs(runtime, subject.as_dict());
  } else if (!subject.is_undefined()) {
    throw Failure("Can only get item pairs from a mapping.");
  }
  return make_iterator_over(runtime, "generator", std::move(pairs));
}

Value attribute_of(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  ArgumentReader reader(runtime, "attr", arguments, {"name"});
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
