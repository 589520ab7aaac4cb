// Tracks origins while a text is rewritten.
#include "text/tokenizer/normalized_string.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <limits>

namespace reprise::text {

NormalizedString::NormalizedString(std::string_view text, size_t base)
    : text_(text), base_(base), original_size_(text.size()) {
  TORCH_CHECK(base + text.size() < std::numeric_limits<uint32_t>::max(),
              "[tokenizer] text: expected less than 4 GiB, found ",
              base + text.size(),
              " bytes; encode it in parts");
}

void check_growth(size_t original, size_t size) {
  TORCH_CHECK(size <= NormalizedString::max_bytes(original),
              "[tokenizer] rewriting: expected at most ",
              NormalizedString::max_bytes(original),
              " bytes from ",
              original,
              " bytes of text, found ",
              size,
              "; the rules of the tokenizer file grow it too much");
}

void NormalizedString::stop_tracking() {
  tracks_ = false;
  origin_ = {};
}

Origin NormalizedString::byte_origin(size_t at) const {
  if (!tracks_) {
    return {0, 0};
  }
  if (!origin_.empty()) {
    return origin_[at];
  }
  size_t begin = at;
  while (begin > 0 && is_continuation(text_[begin])) {
    --begin;
  }
  return {static_cast<uint32_t>(base_ + begin),
          static_cast<uint32_t>(base_ + begin + utf8_length(text_[begin]))};
}

std::pair<size_t, size_t> NormalizedString::origin(size_t begin, size_t end) const {
  TORCH_INTERNAL_ASSERT(begin < end && end <= text_.size());
  return {byte_origin(begin).begin, byte_origin(end - 1).end};
}

void NormalizedString::materialize() {
  if (!tracks_ || !origin_.empty()) {
    return;
  }
  std::vector<Origin> origins;
  origins.reserve(text_.size());
  for (size_t at = 0; at < text_.size();) {
    const size_t length = utf8_length(text_[at]);
    const Origin one{static_cast<uint32_t>(base_ + at), static_cast<uint32_t>(base_ + at + length)};
    origins.insert(origins.end(), length, one);
    at += length;
  }
  origin_ = std::move(origins);
}

void NormalizedString::transform(const std::vector<Change>& changes, size_t removed) {
  materialize();
  std::string text;
  std::vector<Origin> origins;
  text.reserve(text_.size());
  origins.reserve(origin_.size());
  size_t at = 0;
  const auto skip = [&](size_t count) {
    for (; count > 0 && at < text_.size(); --count) {
      at += utf8_length(text_[at]);
    }
  };
  skip(removed);
  for (const Change& change : changes) {
    Origin origin{0, 0};
    if (change.change <= 0 && at < text_.size()) {
      origin = byte_origin(at);
    } else if (at > 0) {
      origin = byte_origin(at - 1);
    }
    if (change.change <= 0) {
      skip(1 + static_cast<size_t>(-change.change));
    }
    append_utf8(text, change.character);
    if (tracks_) {
      origins.resize(text.size(), origin);
    }
  }
  text_ = std::move(text);
  origin_ = std::move(origins);
}

void NormalizedString::prepend(std::string_view prefix) {
  if (text_.empty() || prefix.empty()) {
    return;
  }
  check_growth(original_size_, text_.size() + prefix.size());
  materialize();
  if (tracks_) {
    origin_.insert(origin_.begin(), prefix.size(), Origin(origin_.front()));
  }
  text_.insert(0, prefix);
}

void NormalizedString::replace(const std::vector<std::pair<size_t, size_t>>& ranges,
                               std::string_view content) {
  if (ranges.empty()) {
    return;
  }
  check_growth(original_size_, text_.size() + ranges.size() * content.size());
  materialize();
  NormalizedString result = empty_copy();
  result.reserve(text_.size());
  size_t done = 0;
  for (const auto& [begin, end] : ranges) {
    result.append(*this, done, begin);
    result.append(content, end > 0 ? byte_origin(end - 1) : Origin{0, 0});
    done = end;
  }
  result.append(*this, done, text_.size());
  *this = std::move(result);
}

NormalizedString NormalizedString::part(size_t begin, size_t end) const {
  NormalizedString result(text().substr(begin, end - begin), base_ + begin);
  result.tracks_ = tracks_;
  if (!origin_.empty()) {
    const auto first = origin_.begin();
    result.origin_.assign(first + static_cast<std::ptrdiff_t>(begin),
                          first + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

NormalizedString NormalizedString::empty_of(size_t original_size) {
  NormalizedString result;
  result.original_size_ = original_size;
  return result;
}

NormalizedString NormalizedString::empty_copy() const {
  NormalizedString result = empty_of(original_size_);
  result.tracks_ = tracks_;
  return result;
}

void NormalizedString::append(const NormalizedString& other, size_t begin, size_t end) {
  text_ += other.text().substr(begin, end - begin);
  if (!tracks_) {
    return;
  }
  if (!other.origin_.empty()) {
    const auto first = other.origin_.begin();
    origin_.insert(origin_.end(),
                   first + static_cast<std::ptrdiff_t>(begin),
                   first + static_cast<std::ptrdiff_t>(end));
    return;
  }
  for (size_t at = begin; at < end;) {
    const Origin origin = other.byte_origin(at);
    const size_t length = std::min(utf8_length(other.text_[at]), end - at);
    origin_.insert(origin_.end(), length, origin);
    at += length;
  }
}

void NormalizedString::append(std::string_view text, Origin origin) {
  text_ += text;
  if (tracks_) {
    origin_.resize(text_.size(), origin);
  }
}

void NormalizedString::reserve(size_t bytes) {
  text_.reserve(bytes);
  if (tracks_) {
    origin_.reserve(bytes);
  }
}

std::u32string code_points(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    result += next_code_point(text, at);
  }
  return result;
}

}  // namespace reprise::text
