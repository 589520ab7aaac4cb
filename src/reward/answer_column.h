// The column of a row that holds the right answer.
#pragma once

#include <reprise/io/json.h>

#include <optional>
#include <string>

namespace reprise::detail {

/// The value of `column`, or, if that is empty, of the first of answer, gt_answer, label and
/// solution that is not null. Null if the row has such a column but no value; no pointer if it has
/// no such column.
const Json* find_answer(const Json& row, const std::string& column);

/// The answer as text; nothing if it is null. Throws if the row has no such column, naming those
/// that it has, or if the value is no text, number or truth value.
std::optional<std::string> answer_text(const Json& row, const std::string& column);

}  // namespace reprise::detail
