// x.name, x[index] and x[start:stop:step], as in jinja2's sandboxed environment.
#pragma once

#include "jinja/runtime.h"

#include <string_view>

namespace reprise::jinja {

/// x.name: the attribute, else the item, else undefined.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// x[index]: the item, else the attribute, else undefined.
Value get_item(Runtime& runtime, const Value& object, const Value& index);
/// Only the attribute, for the filter attr().
Value get_only_attribute(Runtime& runtime, const Value& object, std::string_view name);

/// The bounds of a slice; none where omitted.
struct SliceBounds {
  Value start, stop, step;
};
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

}  // namespace reprise::jinja
