// The `attribute` argument of filters: a path such as "user.name" or 0, looked up in each item.
#pragma once

#include "jinja/runtime.h"

#include <optional>
#include <vector>

namespace reprise::jinja {

enum class Case { Kept, Ignored };

/// Lower-cases text if case is ignored; other values are unchanged.
Value fold_case(Runtime& runtime, const Value& value, Case letters);

class AttributeGetter {
 public:
  /// Without an attribute, the item itself is used. `otherwise` replaces undefined results.
  explicit AttributeGetter(Runtime& runtime,
                           const std::optional<Value>& attribute,
                           Case letters = Case::Kept,
                           std::optional<Value> otherwise = std::nullopt);
  Value get(Runtime& runtime, const Value& item) const;

 private:
  Values path_;
  Case letters_;
  std::optional<Value> otherwise_;
};

/// Several paths separated by commas; gives a list, for sorting.
class MultiAttributeGetter {
 public:
  MultiAttributeGetter(Runtime& runtime, const std::optional<Value>& attribute, Case letters);
  Value get(Runtime& runtime, const Value& item) const;

 private:
  std::vector<AttributeGetter> getters_;
};

}  // namespace reprise::jinja
