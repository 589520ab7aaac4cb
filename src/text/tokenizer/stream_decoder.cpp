// StreamDecoder: decodes all pending ids together and emits the text that later ids cannot change.
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <utility>

namespace reprise {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// A character has at most four bytes, so this many ids without a complete one are not a prefix of
// one.
constexpr size_t kMaxWaiting = 8;

}  // namespace

// Note [Decoding a stream]
// Decoding ids one by one differs from decoding them together: a character may span several tokens,
// and the first token of a text may lose its space. So the last ids that gave complete text stay in
// `pending_` as context (their text has `emitted_` bytes), and a new id adds the decoded text
// beyond that. While the text ends with U+FFFD a character may be incomplete, and nothing is
// emitted. After an emission only the ids that produced it remain as context.

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {
  TORCH_CHECK(tokenizer_ != nullptr, "[tokenizer] StreamDecoder: expected a tokenizer, found null");
}

std::string StreamDecoder::push(int64_t id) {
  const bool has_text =
      tokenizer_->token_of(id) && !(skip_special_tokens_ && tokenizer_->is_special(id));
  if (!has_text) {
    return {};  // decoding skips it anyway
  }
  pending_.push_back(id);
  std::string text = tokenizer_->decode(pending_, skip_special_tokens_);
  const bool may_wait = pending_.size() - context_ < kMaxWaiting;
  if (text.size() <= emitted_ || (text.ends_with(kReplacement) && may_wait)) {
    return {};
  }
  std::string fresh = text.substr(emitted_);
  // Keep the newest ids as context and drop the old context.
  const TokenIds newest(pending_.begin() + static_cast<std::ptrdiff_t>(context_), pending_.end());
  const std::string shorter = tokenizer_->decode(newest, skip_special_tokens_);
  pending_ = newest;
  context_ = pending_.size();
  emitted_ = shorter.size();
  return fresh;
}

std::string StreamDecoder::finish() {
  std::string text = tokenizer_->decode(pending_, skip_special_tokens_);
  pending_.clear();
  context_ = 0;
  const size_t emitted = std::exchange(emitted_, 0);
  return text.size() > emitted ? text.substr(emitted) : std::string();
}

}  // namespace reprise
