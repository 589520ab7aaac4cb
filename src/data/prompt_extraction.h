// The prompt of a pair that holds it only inside both answers.
#pragma once

#include "data/passage.h"

namespace reprise::detail {

struct ExtractedPrompt {
  Passage prompt, chosen, rejected;
};

/// What both begin with is the prompt: messages, or characters of a text, less a space at its end.
/// At least one message or character is left to both, as in TRL. Throws if one is text and the
/// other a chat, or one is empty.
ExtractedPrompt extract_prompt(const Passage& chosen, const Passage& rejected);

}  // namespace reprise::detail
