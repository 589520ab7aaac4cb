// find_filter().
#include "jinja/builtins/filters.h"

#include <algorithm>

namespace reprise::jinja {

const Filter* find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), number_filters(), sequence_filters(), selection_filters()}) {
    const auto found = std::find_if(
        table.begin(), table.end(), [&](const Filter& filter) { return filter.name == name; });
    if (found != table.end()) {
      return &*found;
    }
  }
  return nullptr;
}

}  // namespace reprise::jinja
