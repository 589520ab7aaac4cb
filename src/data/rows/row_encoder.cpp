// EOS, the end of prompts and truncation, for all objectives.
#include "data/rows/row_encoder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reprise::data {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// How many tokens of a text are made: more than what is kept, to count what truncation takes away.
/// std::nullopt: all of them.
std::optional<size_t> wanted_tokens(const RowOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 32;
  const bool needs_all = options.max_length == 0 || options.max_length > kMost ||
                         options.truncation == TruncationSide::KeepEnd ||
                         options.objective == Objective::Prm;  // counts the marks in a text
  if (needs_all) {
    return std::nullopt;
  }
  constexpr int64_t kCounted = int64_t{1} << 20;
  const int64_t parts = options.objective == Objective::Kto ? 2 : 1;  // limited one by one
  return static_cast<size_t>(std::max(parts * options.max_length + 1, kCounted));
}

template <class T>
void erase_outside(std::vector<T>& values, int64_t begin, int64_t count) {
  if (!values.empty()) {
    values.erase(values.begin(), values.begin() + begin);
    values.resize(static_cast<size_t>(count));
  }
}

}  // namespace

RowEncoder::RowEncoder(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      chats_(tokenizer_, options_.chat_template),
      wanted_(wanted_tokens(options_)) {}

TokenIds RowEncoder::encode(const TextOrChat& content, const Json& variables) const {
  const EncodeOptions options{
      .add_special_tokens = !content.is_chat, .offsets = false, .wanted = wanted_};
  TokenIds ids =
      content.is_chat
          ? tokenizer_->encode(chats_.render(content.messages, variables).text, options).ids
          : tokenizer_->encode(content.text, options).ids;
  if (wanted_ && ids.size() > *wanted_) {
    ids.resize(*wanted_);
  }
  return ids;
}

TokenIds RowEncoder::encode_prompt(const TextOrChat& content, const Json& variables) const {
  Json all = variables;
  all["add_generation_prompt"] = true;
  return encode(content, all);
}

TokenIds RowEncoder::encode_plain(const std::string& text) const {
  return tokenizer_->encode(text, {.add_special_tokens = false, .offsets = false}).ids;
}

int64_t RowEncoder::single_token(const std::string& text, const std::string& what) const {
  const TokenIds ids = encode_plain(text);
  TORCH_CHECK(ids.size() == 1,
              what,
              " \"",
              text,
              "\" must be one token of this tokenizer; it is ",
              ids.size());
  return ids.front();
}

TextOrChat RowEncoder::with_eos(TextOrChat content) const {
  if (content.is_chat) {
    return content;
  }
  const auto eos = tokenizer_->special_tokens().eos;
  TORCH_CHECK(eos,
              "plain text ends with the EOS token, and this tokenizer has none: add "
              "eos_token to tokenizer_config.json");
  const std::string end = tokenizer_->token_of(*eos).value();
  if (!ends_with(content.text, end)) {
    content.text += end;
  }
  return content;
}

std::string RowEncoder::boundary_hint(const TokenIds& prompt, int64_t common) const {
  if (common == static_cast<int64_t>(prompt.size())) {
    return {};
  }
  const TokenIds rest(prompt.begin() + common, prompt.end());
  return "the prompt alone ends in " + excerpt(tokenizer_->decode(rest)) +
         ", which are different tokens when the completion follows. The completion then begins "
         "there, and the model is trained on another context than it will see. End prompts at a "
         "token boundary, or use a chat template that renders them the same in both cases";
}

int64_t common_prefix_length(const TokenIds& ids, const TokenIds& other) {
  const auto [end, _] = std::mismatch(ids.begin(), ids.end(), other.begin(), other.end());
  return end - ids.begin();
}

TokenSequence completion_sequence(TokenIds ids, int64_t prompt) {
  TokenSequence sequence;
  sequence.labels = ids;
  std::fill_n(sequence.labels.begin(), prompt, kIgnoredLabel);
  sequence.ids = std::move(ids);
  sequence.prompt = prompt;
  return sequence;
}

ExampleLength length_of(std::span<const TokenSequence> sequences, int64_t max_length) {
  ExampleLength result;
  for (const TokenSequence& sequence : sequences) {
    const auto length = static_cast<int64_t>(sequence.ids.size());
    result.longest = std::max(result.longest, length);
    result.tokens += length;
    result.lost += max_length > 0 ? std::max<int64_t>(length - max_length, 0) : 0;
  }
  return result;
}

void truncate(TokenSequence& sequence, int64_t max_length, TruncationSide side) {
  const auto length = static_cast<int64_t>(sequence.ids.size());
  if (max_length == 0 || length <= max_length) {
    return;
  }
  const int64_t begin = side == TruncationSide::KeepEnd ? length - max_length : 0;
  erase_outside(sequence.ids, begin, max_length);
  erase_outside(sequence.labels, begin, max_length);
  erase_outside(sequence.soft_labels, begin, max_length);
  sequence.prompt = std::clamp<int64_t>(sequence.prompt - begin, 0, max_length);
}

TokenizedRow keep_if_labelled(TokenSequence sequence) {
  const bool has_label = std::any_of(sequence.labels.begin(),
                                     sequence.labels.end(),
                                     [](int64_t label) { return label != kIgnoredLabel; });
  TokenizedRow result;
  if (has_label) {
    result.examples.emplace_back().sequences.push_back(std::move(sequence));
  } else {
    ++result.dropped[kNoLabelLeft];
  }
  return result;
}

}  // namespace reprise::data
