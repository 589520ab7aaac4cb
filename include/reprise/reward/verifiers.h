// Rule-based rewards: whether the completion is correct, or has the required form.
//
// A verifier is written as kind[:key=value,key=value...]:
//
//   exact_match  1 if the completion, trimmed, is the answer
//   last_number  1 if the completion's last number equals the answer's: 1,234.50, -3/4, 12%, 1e3.
//                If the answer has a ####, as in GSM8K, only the part after the last one counts
//   boxed        1 if the content of the last \boxed{} is the answer, apart from LaTeX notation:
//                spaces, \frac{1}{2} or 1/2, \left and \right, $, a final dot, a unit in \text{}
//   regex        1 if pattern= matches somewhere. This key must be the last: its value is the rest
//                of the text, commas included. Ruby's syntax: ^ and $ match at lines, \A and \z at
//                the ends of the text
//   format       1 if the completion is <think>...</think><answer>...</answer> and otherwise only
//                white space; tags=a+b uses other tags, text_after=yes allows text after the last
//   length       0 up to limit= tokens, then falling linearly to -penalty= (default 1) over the
//                next range= tokens (default: limit)
//
// The first three compare with a column of the data row: answer=COLUMN, or the first of answer,
// gt_answer, label and solution that exists. Every kind accepts name=, the name in metrics
// (default: the kind).
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <memory>
#include <string_view>

namespace reprise {

/// Throws if the spec is invalid; the message lists what is possible. The score is NaN if the row's
/// column is null, or if a regular expression takes too many steps on a completion. A row without
/// the column is an error in check() and score().
REPRISE_API std::unique_ptr<RewardSource> make_verifier(std::string_view spec);

}  // namespace reprise
