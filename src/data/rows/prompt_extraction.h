// Extracts the prompt of a pair that has it only as the common beginning of both answers.
#pragma once

#include "data/rows/text_or_chat.h"

namespace reprise::data {

struct ExtractedPrompt {
  TextOrChat prompt, chosen, rejected;
};

/// The prompt is the common prefix, in messages or in characters without a trailing space. As in
/// TRL, both answers keep at least one message or character. Throws if one is text and the other a
/// chat, or if one is empty.
ExtractedPrompt extract_prompt(const TextOrChat& chosen, const TextOrChat& rejected);

}  // namespace reprise::data
