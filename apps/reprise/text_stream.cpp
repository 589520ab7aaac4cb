#include "reprise/text_stream.h"

#include <algorithm>
#include <string_view>

namespace reprise::app {

namespace {

// Length of the longest suffix of `text` that is a prefix of `stop`.
size_t unfinished(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size()); length > 0; --length) {
    if (stop.starts_with(text.substr(text.size() - length))) {
      return length;
    }
  }
  return 0;
}

}  // namespace

std::string TextStream::push(int64_t token) {
  held_ += decoder_.push(token);
  return release(/*is_end=*/false);
}

std::string TextStream::finish() {
  held_ += decoder_.finish();
  return release(/*is_end=*/true);
}

std::string TextStream::release(bool is_end) {
  if (is_stopped_) {
    return {};
  }
  size_t end = held_.size(), waiting = 0;
  for (const auto& stop : stop_) {
    const size_t found = held_.find(stop);
    is_stopped_ = is_stopped_ || found != std::string::npos;
    end = std::min(end, found);
    waiting = std::max(waiting, unfinished(held_, stop));
  }
  if (!is_stopped_ && !is_end) {
    end -= waiting;
  }
  std::string text = held_.substr(0, end);
  held_.erase(0, end);
  return text;
}

}  // namespace reprise::app
