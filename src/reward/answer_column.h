// The column of a data row with the correct answer.
#pragma once

#include <reprise/io/json.h>

#include <optional>
#include <string>

namespace reprise::reward {

/// The value of `column` or, if that is empty, the first value of answer, gt_answer, label and
/// solution that is not null. A JSON null if the row has such a column without a value; nullptr if
/// it has no such column.
const Json* find_answer(const Json& row, const std::string& column);

/// The answer as text; std::nullopt if it is null. Throws if the row has no such column, listing
/// its columns, or if the value is not a string, number or boolean.
std::optional<std::string> answer_text(const Json& row, const std::string& column);

}  // namespace reprise::reward
