// The `attribute` argument of filters: a path such as "user.name" or 0, looked up in each item.
#pragma once

#include "text/template/runtime.h"

#include <optional>
#include <vector>

namespace reprise::jinja {

enum class Case { Kept, Ignored };

/// Text in lower case if case is ignored; everything else as it is.
Value fold_case(Runtime& runtime, const Value& value, Case letters);

class Getter {
 public:
  /// Without an attribute the item itself. `otherwise` replaces what is undefined.
  explicit Getter(const std::optional<Value>& attribute,
                  Case letters = Case::Kept,
                  std::optional<Value> otherwise = std::nullopt);
  Value get(Runtime& runtime, const Value& item) const;

 private:
  Values path_;
  Case letters_;
  std::optional<Value> otherwise_;
};

/// Several paths with commas between them; gives a list, for sorting.
class MultiGetter {
 public:
  MultiGetter(const std::optional<Value>& attribute, Case letters);
  Value get(Runtime& runtime, const Value& item) const;

 private:
  std::vector<Getter> getters_;
};

}  // namespace reprise::jinja
