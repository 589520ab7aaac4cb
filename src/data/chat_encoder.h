// Chats to ids, with the assistant's own tokens told apart.
#pragma once

#include <reprise/data/rows.h>
#include <reprise/io/json.h>
#include <reprise/text/chat_template.h>
#include <reprise/text/tokenizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

/// Immutable; may be shared by threads.
class ChatEncoder {
 public:
  /// An empty `chat_template` means the tokenizer's own.
  ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer, const std::string& chat_template);

  /// With what transformers always defines for a template, and `variables`.
  RenderedChat render(const Json& messages, const Json& variables) const;

  /// By the template, which writes all special tokens itself.
  TokenIds encode(const Json& messages, const Json& variables) const;

  struct Marked {
    TokenIds ids;
    std::vector<bool> is_own;  ///< of each token: whether the assistant says it
  };
  /// See Note [The assistant's own tokens]. Throws if the assistant says nothing.
  Marked encode_marked(const Json& messages, const Json& variables, TrainedTurns turns) const;

 private:
  bool has_marks() const;
  ByteRanges turns_by_prefix(const Json& messages,
                             const Json& variables,
                             const std::string& whole) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;  // in place of the tokenizer's
};

}  // namespace reprise::detail
