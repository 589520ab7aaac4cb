#include "reprise/terminal_text.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::app {

namespace {

constexpr std::string_view kInstead = "\xef\xbf\xbd";  // U+FFFD

/// The bytes of a character that begins like this; 0: none does.
size_t length_of(unsigned char first) {
  return first < 0x80                    ? 1
         : first >= 0xc2 && first < 0xe0 ? 2
         : first >= 0xe0 && first < 0xf0 ? 3
         : first >= 0xf0 && first < 0xf5 ? 4
                                         : 0;
}

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 2) {
    return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  }
  return character.size() == 1 &&
         ((first < 0x20 && first != '\n' && first != '\t') || first == 0x7f);
}

}  // namespace

std::string TerminalFilter::pass(std::string_view bytes) {
  held_ += bytes;
  std::string shown;
  size_t at = 0;
  while (at < held_.size()) {
    const size_t length = length_of(static_cast<unsigned char>(held_[at]));
    size_t there = 1;
    while (there < length && at + there < held_.size() && continues(held_[at + there])) {
      ++there;
    }
    if (there < length && at + there == held_.size()) {
      break;  // the rest may come
    }
    const auto character = std::string_view(held_).substr(at, there);
    const bool is_whole = there == length;
    shown += is_whole && !is_control(character) ? character : kInstead;
    at += there;
  }
  held_.erase(0, at);
  return shown;
}

std::string TerminalFilter::finish() {
  const bool has_rest = !held_.empty();
  held_.clear();
  return has_rest ? std::string(kInstead) : "";
}

std::string terminal_text(std::string_view text) {
  TerminalFilter filter;
  std::string shown = filter.pass(text);
  return shown + filter.finish();
}

TerminalGuard::TerminalGuard(std::ostream& stream, int descriptor)
    : stream_(stream), buffer_(stream.rdbuf()), is_terminal_(::isatty(descriptor) == 1) {
  if (is_terminal_) {
    stream_.rdbuf(&buffer_);
  }
}

TerminalGuard::~TerminalGuard() {
  if (is_terminal_) {
    buffer_.finish();
    stream_.rdbuf(buffer_.below());
  }
}

bool TerminalGuard::Buffer::write(const std::string& text) {
  const auto size = static_cast<std::streamsize>(text.size());
  return below_->sputn(text.data(), size) == size;
}

void TerminalGuard::Buffer::finish() {
  write(filter_.finish());
  below_->pubsync();
}

TerminalGuard::Buffer::int_type TerminalGuard::Buffer::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof())) {
    return traits_type::not_eof(character);
  }
  const char byte = traits_type::to_char_type(character);
  return write(filter_.pass({&byte, 1})) ? character : traits_type::eof();
}

std::streamsize TerminalGuard::Buffer::xsputn(const char* bytes, std::streamsize count) {
  return write(filter_.pass({bytes, static_cast<size_t>(count)})) ? count : 0;
}

}  // namespace reprise::app
