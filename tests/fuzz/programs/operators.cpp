#include "fuzz/programs/operators.h"

#include <c10/util/Exception.h>

namespace reprise::fuzz {

const std::vector<Operator>& operators() {
  static const auto rows = [] {
    std::vector<Operator> all;
    for (auto* part : {&math_operators,
                       &layer_operators,
                       &view_operators,
                       &write_operators,
                       &random_operators,
                       &effect_operators,
                       &hook_operators}) {
      const auto more = part();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return rows;
}

int operator_named(std::string_view name) {
  const auto& rows = operators();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == name) {
      return static_cast<int>(i);
    }
  }
  TORCH_CHECK(false, "[fuzz] there is no operator named ", std::string(name));
}

std::vector<int64_t> shape_of(char type, int64_t rows, int64_t columns) {
  switch (type) {
    case 'a':
    case 'm':
      return {rows, columns};
    case 'w':
      return {columns, columns};
    case 'v':
      return {columns};
    case 'h':
      return {rows, columns / 2};
    case 't':
      return {columns, rows};
    case 'b':
      return {2, rows, columns / 2};
    case 'i':
      return {rows};
    case 's':
    case 'n':
    case 'g':
      return {};
    default:
      TORCH_CHECK(false, "[fuzz] there is no type ", type);
  }
}

}  // namespace reprise::fuzz
