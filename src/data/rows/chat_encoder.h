// Tokenises chats, with a mask of the assistant's tokens.
#pragma once

#include <reprise/data/rows.h>
#include <reprise/io/json.h>
#include <reprise/jinja/chat_template.h>
#include <reprise/text/tokenizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::data {

/// Immutable; may be shared by threads.
class ChatEncoder {
 public:
  /// An empty `chat_template`: use the tokenizer's.
  ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, const std::string& chat_template);

  /// Renders with `variables` and those that transformers always defines.
  RenderedChat render(const Json& messages, const Json& variables) const;

  /// Tokenised; special tokens come from the template only.
  struct MaskedChat {
    TokenIds ids;
    std::vector<bool> assistant_mask;  ///< per token: whether it is the assistant's
  };
  /// See Note [The assistant's own tokens]. Throws if the assistant has no tokens.
  MaskedChat encode_with_mask(const Json& messages,
                              const Json& variables,
                              TrainedTurns turns) const;

 private:
  bool marks_generation() const;
  ByteRanges turns_by_prefix(const Json& messages,
                             const Json& variables,
                             const std::string& whole) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;  // overrides the tokenizer's
};

}  // namespace reprise::data
