// Text and chats to ids, and ids to sequences with labels, for the rows of all objectives.
#pragma once

#include <reprise/data/example.h>
#include <reprise/data/rows.h>

#include "data/rows/chat_encoder.h"
#include "data/rows/text_or_chat.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace reprise::data {

/// Immutable; may be shared by threads.
class RowEncoder {
 public:
  RowEncoder(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options);

  const RowOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatEncoder& chats() const { return chats_; }

  /// Text gets the special tokens of the tokenizer; a chat is rendered by its template. Of what is
  /// truncated anyway at most a million tokens, enough to count what is lost.
  TokenIds encode(const TextOrChat& content, const Json& variables) const;
  /// The same for a prompt: a chat ends with the generation prompt.
  TokenIds encode_prompt(const TextOrChat& content, const Json& variables) const;
  /// Adds no special tokens.
  TokenIds encode_plain(const std::string& text) const;
  /// The id of a text that must be a single token. `what` is for error messages.
  int64_t single_token(const std::string& text, const std::string& what) const;

  /// Appends the EOS token to text that does not end with it. Chats stay unchanged, since their
  /// template ends them. Throws if the tokenizer has no EOS token.
  TextOrChat with_eos(TextOrChat content) const;

  /// A hint for the user if only the first `common` ids of the prompt precede the completion; empty
  /// if all do.
  std::string boundary_hint(const TokenIds& prompt, int64_t common) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  RowOptions options_;
  ChatEncoder chats_;
  std::optional<size_t> wanted_;  // tokens of a row
};

/// How many leading ids are equal. A prompt ends where it differs from prompt + completion
/// tokenised together: tokens may merge across the boundary, and a template may render a prompt
/// differently when nothing follows.
int64_t common_prefix_length(const TokenIds& ids, const TokenIds& other);

/// A sequence with labels for all ids after the first `prompt`.
TokenSequence completion_sequence(TokenIds ids, int64_t prompt);

/// The length of an example, of which at most `max_length` tokens of each sequence are kept; 0:
/// all.
ExampleLength length_of(std::span<const TokenSequence> sequences, int64_t max_length);

/// Truncates to `max_length` ids; 0: no limit.
void truncate(TokenSequence& sequence, int64_t max_length, TruncationSide side);

/// An example with this sequence, or none if no label is left: its loss would be 0 / 0.
TokenizedRow keep_if_labelled(TokenSequence sequence);

/// Reasons in TokenizedRow::dropped.
inline constexpr const char* kNoLabelLeft = "no label left after truncation";
inline constexpr const char* kPromptTooLong = "the prompt alone fills max_length";
inline constexpr const char* kTooLong = "longer than max_length";

}  // namespace reprise::data
