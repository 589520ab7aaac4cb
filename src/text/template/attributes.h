// x.name, x[index] and x[start:stop:step], as the sandboxed environment of jinja2 answers them.
#pragma once

#include "text/template/runtime.h"

#include <string>
#include <string_view>

namespace reprise::jinja {

/// x.name: the attribute, else the item, else undefined.
Value get_attribute(Runtime& runtime, const Value& object, const std::string& name);
/// x[index]: the item, else the attribute, else undefined.
Value get_item(Runtime& runtime, const Value& object, const Value& index);
/// The attribute alone, for the filter attr().
Value get_only_attribute(Runtime& runtime, const Value& object, const std::string& name);

/// What stands between the brackets; none where nothing was written.
struct SliceBounds {
  Value start, stop, step;
};
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

}  // namespace reprise::jinja
