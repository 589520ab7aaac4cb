// Filters: {{ value|name(arguments) }}.
#pragma once

#include "jinja/runtime.h"

#include <span>
#include <string_view>

namespace reprise::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& subject, const Arguments& arguments);
};

/// Null if there is no filter of this name.
const Filter* find_filter(std::string_view name);

// The tables that find_filter() searches, one per file.
std::span<const Filter> text_filters();
std::span<const Filter> number_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> selection_filters();

}  // namespace reprise::jinja
