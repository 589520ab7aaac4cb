// Uses only control sequences that every terminal supports: carriage return and "erase to the end
// of the line".
#include "reprise/progress_line.h"

#include "reprise/terminal_text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace reprise::app {

namespace {

constexpr std::string_view kClear = "\r\x1b[K";
constexpr auto kRedrawAfter = std::chrono::milliseconds(100);

/// Called for each redraw, because windows are resized.
size_t columns_of(int descriptor) {
  constexpr size_t kUsual = 80;
  winsize size{};
  const bool is_known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free: some terminals wrap as soon as it is written.
  return (is_known ? size.ws_col : kUsual) - 1;
}

/// Whether the terminal shows Unicode, by the first of these variables that is set.
BarStyle style_of_locale() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      std::string text = value;
      std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      });
      const bool is_utf8 =
          text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
      return is_utf8 ? BarStyle::Unicode : BarStyle::Ascii;
    }
  }
  return BarStyle::Ascii;
}

/// TERM=dumb means that control sequences are not interpreted.
bool can_redraw(int descriptor) {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace

ProgressLine::ProgressLine(int descriptor)
    : descriptor_(descriptor),
      is_terminal_(can_redraw(descriptor)),
      style_(style_of_locale()),
      drawn_at_(Clock::now() - kRedrawAfter),
      started_(Clock::now()) {}

ProgressLine::~ProgressLine() {
  if (is_drawn_ && (!phase_.empty() || logged_step_ == latest_.step)) {
    write(kClear);
  } else if (is_drawn_) {
    draw();
    write("\n");
  }
}

void ProgressLine::phase(std::string_view what) {
  if (is_terminal_) {
    phase_ = std::string(what) + " ...";
    draw();
  } else {
    write(std::string(what) + "\n");
  }
}

void ProgressLine::show(const Progress& progress) {
  phase_.clear();
  latest_ = with_time_left(progress);
  const bool is_last = progress.step == progress.total;
  if (is_terminal_ && (is_last || Clock::now() - drawn_at_ >= kRedrawAfter)) {
    draw();
  }
}

void ProgressLine::log(const Progress& progress) {
  phase_.clear();
  latest_ = with_time_left(progress);
  logged_step_ = progress.step;
  if (is_terminal_) {
    write(std::string(kClear) + progress_log_line(latest_, columns_of(descriptor_)) + "\n");
    draw();
  } else {
    write(progress_log_line(latest_) + "\n");
  }
}

void ProgressLine::print(std::string_view line) {
  // The line may quote what a model or a file says.
  const bool is_shown = ::isatty(descriptor_) == 1;
  write((is_drawn_ ? std::string(kClear) : std::string()) +
        (is_shown ? terminal_text(line) : std::string(line)) + "\n");
  if (is_drawn_) {
    draw();
  }
}

Progress ProgressLine::with_time_left(Progress progress) {
  if (!first_step_) {
    first_step_ = progress.step;
    started_ = Clock::now();
  }
  if (!progress.seconds_left) {
    const std::chrono::duration<double> elapsed = Clock::now() - started_;
    progress.seconds_left = estimate_seconds_left(
        elapsed.count(), progress.step - *first_step_, progress.total - progress.step);
  }
  return progress;
}

void ProgressLine::draw() {
  const size_t columns = columns_of(descriptor_);
  write(std::string(kClear) + (phase_.empty() ? progress_line(latest_, columns, style_)
                                              : terminal_text(phase_.substr(0, columns))));
  is_drawn_ = true;
  drawn_at_ = Clock::now();
}

/// Ignores errors: the run continues if the terminal is gone.
void ProgressLine::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return;
    }
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace reprise::app
