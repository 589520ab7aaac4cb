// Rows with a prompt alone, for a policy to answer.
#pragma once

#include <reprise/data/prompts.h>

#include "data/passage.h"
#include "data/passage_encoder.h"

#include <memory>
#include <string>

namespace reprise::detail {

/// A row as its keys say it, before it is tokenised.
struct PromptRow {
  std::string convention;  ///< "messages, as chat"
  Passage prompt;
  bool had_answer = false;  ///< which the prompt has lost
  Json variables = {};      ///< of the chat template
};

/// Immutable; may be shared by threads.
class PromptEncoder {
 public:
  /// Throws if options contradict each other or have no effect.
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, PromptOptions options);

  const PromptOptions& options() const { return options_; }

  /// Throws saying what is wrong with the row.
  PromptRow read(const Json& row) const;

  struct Encoded {
    TokenIds ids;
    std::string text;
    bool is_too_long = false;  ///< the ids are those that are kept, if LongPrompts keeps any
  };
  /// Throws if there are no ids to begin with.
  Encoded encode(const PromptRow& row) const;

 private:
  PromptOptions options_;
  PassageEncoder passages_;
};

}  // namespace reprise::detail
