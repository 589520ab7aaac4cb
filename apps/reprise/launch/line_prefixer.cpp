#include "reprise/launch/line_prefixer.h"

#include "reprise/terminal_text.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace reprise::app {

namespace {

constexpr size_t kLongestLine = size_t{1} << 16;  // longer lines are cut, to bound memory

// Ignores errors: the run continues if the reader is gone.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return;
    }
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

LinePrefixer::LinePrefixer(std::string prefix, int descriptor)
    : is_terminal_(::isatty(descriptor) == 1),
      prefix_((is_terminal_ ? "\r\x1b[K" : "") + std::move(prefix)),
      descriptor_(descriptor) {}

void LinePrefixer::add(std::string_view bytes) {
  waiting_ += bytes;
  size_t begin = 0;
  for (size_t end; (end = waiting_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    write_line(std::string_view(waiting_).substr(begin, end - begin));
  }
  waiting_.erase(0, begin);
  if (waiting_.size() > kLongestLine) {
    finish();
  }
}

void LinePrefixer::finish() {
  if (!waiting_.empty()) {
    write_line(waiting_);
    waiting_.clear();
  }
}

void LinePrefixer::write_line(std::string_view line) const {
  // The process wrote to a pipe, so it has not done this itself.
  write_all(descriptor_, prefix_ + (is_terminal_ ? terminal_text(line) : std::string(line)) + "\n");
}

}  // namespace reprise::app
