// Passages to ids, and from ids to sequences with labels: what the rows of all objectives share.
#pragma once

#include <reprise/data/example.h>
#include <reprise/data/rows.h>

#include "data/chat_encoder.h"
#include "data/passage.h"

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::detail {

/// Immutable; may be shared by threads.
class PassageEncoder {
 public:
  PassageEncoder(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options);

  const RowOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatEncoder& chats() const { return chats_; }

  /// Text with the special tokens that the tokenizer adds; a chat by its template.
  TokenIds encode(const Passage& passage, const Json& variables) const;
  /// The same for what a completion follows: a chat ends with the generation prompt.
  TokenIds encode_prompt(const Passage& passage, const Json& variables) const;
  /// Nothing is added.
  TokenIds encode_plain(const std::string& text) const;
  /// The id of a text that is one token; throws, calling it `what`, if it is not.
  int64_t single_token(const std::string& text, const std::string& what) const;

  /// Text with the EOS token at its end, unless it ends so; chats as they are, since their template
  /// ends them. Throws if the tokenizer has none.
  Passage ended(Passage passage) const;

  /// Something to tell the user if only the first `common` ids of a prompt are those that precede a
  /// completion; nothing if all are.
  std::string border_hint(const TokenIds& prompt, int64_t common) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  RowOptions options_;
  ChatEncoder chats_;
};

/// How many ids both begin with. A prompt ends where it differs from prompt and completion
/// tokenised together: tokens may merge across the border, and templates may render a prompt
/// otherwise when it stands alone.
int64_t common_prefix(const TokenIds& ids, const TokenIds& other);

/// All ids from `prompt` on are learnt.
TokenSequence completion_sequence(TokenIds ids, int64_t prompt);

/// At most `max_length` ids, unless that is 0.
void cut(TokenSequence& sequence, int64_t max_length, TruncationSide side);

/// One example of one sequence, unless no label is left: its loss would be 0 / 0.
TokenizedRow kept_if_labelled(TokenSequence sequence);

/// Why a row lacks an example, as counted by the reader of the data.
inline constexpr const char* kNoLabelLeft = "no label left after truncation";
inline constexpr const char* kPromptTooLong = "the prompt alone fills max_length";
inline constexpr const char* kTooLong = "longer than max_length";

}  // namespace reprise::detail
