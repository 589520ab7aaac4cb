// Which column holds the answer, and its value as text.
#include "reward/answer_column.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise::reward {
namespace {

constexpr std::array kUsualColumns = {"answer", "gt_answer", "label", "solution"};

std::string columns_of(const Json& row) {
  std::string names;
  for (const auto& [name, value] : row.items()) {
    names.append(names.empty() ? "" : ", ").append(name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

const Json* find_answer(const Json& row, const std::string& column) {
  if (!row.is_object()) {
    return nullptr;
  }
  if (!column.empty()) {
    const auto found = row.find(column);
    return found == row.end() ? nullptr : &*found;
  }
  const Json* answer = nullptr;
  for (const char* usual : kUsualColumns) {
    const auto found = row.find(usual);
    if (found == row.end()) {
      continue;
    }
    if (!found->is_null()) {
      return &*found;
    }
    answer = &*found;
  }
  return answer;
}

std::optional<std::string> answer_text(const Json& row, const std::string& column) {
  const Json* answer = find_answer(row, column);
  TORCH_CHECK(answer != nullptr,
              "the row has no column ",
              column.empty() ? "answer, gt_answer, label or solution" : "\"" + column + "\"",
              " to compare with (its columns: ",
              columns_of(row),
              "). Name the right one with answer=COLUMN");
  if (answer->is_null()) {
    return std::nullopt;
  }
  TORCH_CHECK(answer->is_string() || answer->is_number() || answer->is_boolean(),
              "the answer to compare with must be text or a number, found ",
              kind_of(*answer));
  return answer->is_string() ? answer->get<std::string>() : answer->dump();
}

}  // namespace reprise::reward
