// Rewards that need no model: the completion is right, or has the form that was asked for.
//
// A verifier is written as kind[:key=value,key=value...]:
//
//   exact_match  1 if the completion, trimmed, is the answer
//   last_number  1 if the completion's last number is the answer's: 1,234.50, -3/4, 12%, 1e3; of an
//                answer such as GSM8K's "... #### 42", what follows the last ####
//   boxed        1 if what the last \boxed{} holds is the answer, up to how LaTeX writes it:
//   spaces,
//                \frac{1}{2} or 1/2, \left and \right, $, a final dot, a unit in \text{}
//   regex        1 if pattern= matches somewhere. It comes last and takes the rest of the text,
//                commas too. Ruby's syntax: ^ and $ stand for lines, \A and \z for the whole
//   format       1 if the completion is <think>...</think><answer>...</answer> and nothing else but
//                white space; tags=a+b names others, text_after=yes allows text behind the last
//   length       0 up to limit= tokens, from there linearly down to -penalty= (1) at range= tokens
//                more (as many as limit)
//
// The first three compare with a column: answer=COLUMN, or the first of answer, gt_answer, label
// and solution that the row has. Every kind takes name=, what it is logged as (its kind).
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// The kinds there are.
REPRISE_API std::vector<std::string> verifier_names();

/// Throws for a spec that is not as above, saying what there is. A verifier scores NaN where the
/// row's column is null, and where a regular expression takes too many steps on a completion; a row
/// without the column is an error, in check() and in score().
REPRISE_API std::unique_ptr<RewardSource> make_verifier(std::string_view spec);

}  // namespace reprise
