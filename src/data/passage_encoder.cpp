// Where EOS is added, prompts end and sequences are cut: one place for all objectives.
#include "data/passage_encoder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

template <class T>
void erase_outside(std::vector<T>& values, int64_t begin, int64_t count) {
  if (!values.empty()) {
    values.erase(values.begin(), values.begin() + begin);
    values.resize(static_cast<size_t>(count));
  }
}

}  // namespace

PassageEncoder::PassageEncoder(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options)
    : tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      chats_(tokenizer_, options_.chat_template) {}

TokenIds PassageEncoder::encode(const Passage& passage, const Json& variables) const {
  return passage.is_chat ? chats_.encode(passage.messages, variables)
                         : tokenizer_->encode(passage.text).ids;
}

TokenIds PassageEncoder::encode_prompt(const Passage& passage, const Json& variables) const {
  Json all = variables;
  all["add_generation_prompt"] = true;
  return encode(passage, all);
}

TokenIds PassageEncoder::encode_plain(const std::string& text) const {
  return tokenizer_->encode(text, {.add_special_tokens = false}).ids;
}

int64_t PassageEncoder::single_token(const std::string& text, const std::string& what) const {
  const TokenIds ids = encode_plain(text);
  TORCH_CHECK(ids.size() == 1,
              what,
              " \"",
              text,
              "\" must be one token of this tokenizer; it is ",
              ids.size());
  return ids.front();
}

Passage PassageEncoder::ended(Passage passage) const {
  if (passage.is_chat) {
    return passage;
  }
  const auto eos = tokenizer_->special_tokens().eos;
  TORCH_CHECK(eos,
              "plain text is ended with the EOS token, and this tokenizer names none: add "
              "eos_token to tokenizer_config.json");
  const std::string end = tokenizer_->token_of(*eos).value();
  if (!ends_with(passage.text, end)) {
    passage.text += end;
  }
  return passage;
}

std::string PassageEncoder::border_hint(const TokenIds& prompt, int64_t common) const {
  if (common == static_cast<int64_t>(prompt.size())) {
    return {};
  }
  const TokenIds rest(prompt.begin() + common, prompt.end());
  return "the prompt alone ends in " + shown(tokenizer_->decode(rest)) +
         ", which are other tokens when the completion follows: it begins there, and the model is "
         "trained on a context other than the one it will see. Let prompts end where a token ends, "
         "or use a chat template that renders them the same in both cases";
}

int64_t common_prefix(const TokenIds& ids, const TokenIds& other) {
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

void cut(TokenSequence& sequence, int64_t max_length, TruncationSide side) {
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

TokenizedRow kept_if_labelled(TokenSequence sequence) {
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

}  // namespace reprise::detail
