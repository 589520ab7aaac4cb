// Reads and tokenises rows that have only a prompt, for a policy to complete.
#pragma once

#include <reprise/data/prompts.h>

#include "data/rows/row_encoder.h"
#include "data/rows/text_or_chat.h"

#include <memory>
#include <string>

namespace reprise::data {

/// A row before it is tokenised.
struct PromptRow {
  std::string convention;  ///< "messages, as chat"
  TextOrChat prompt;
  bool had_answer = false;  ///< an assistant turn was removed from the prompt
  Json variables = {};      ///< for the chat template
};

/// Immutable; may be shared by threads.
class PromptEncoder {
 public:
  /// Throws if options contradict each other or have no effect.
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, PromptOptions options);

  const PromptOptions& options() const { return options_; }

  /// Throws with what is wrong with the row.
  PromptRow read(const Json& row) const;

  struct Encoded {
    TokenIds ids;
    std::string text;
    bool is_too_long = false;  ///< then ids are those that LongPrompts::KeepEnd keeps
    int64_t length = 0;        ///< of the whole prompt
  };
  /// Throws if the prompt has no tokens.
  Encoded encode(const PromptRow& row) const;

 private:
  PromptOptions options_;
  RowEncoder row_encoder_;
};

}  // namespace reprise::data
