// What others have written (a model, a file, a server) as a terminal may show it: without control
// characters, which could rewrite the screen, its title or the clipboard. Output that goes to a
// file or a pipe stays as it is.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace reprise::app {

/// Replaces control characters (C0 and C1, as single bytes too, and DEL) by U+FFFD, all but newline
/// and tab, also if they arrive in parts.
class TerminalFilter {
 public:
  std::string pass(std::string_view bytes);
  /// What was held back as the beginning of a character.
  std::string finish();

 private:
  std::string held_;
};

/// All of a text.
std::string terminal_text(std::string_view text);

/// While it lives, everything that is written to the stream passes a TerminalFilter, if
/// `descriptor` is a terminal. Our own control sequences go past it: see ProgressLine.
class TerminalGuard {
 public:
  TerminalGuard(std::ostream& stream, int descriptor);
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(std::streambuf* below) : below_(below) {}
    std::streambuf* below() const { return below_; }
    void finish();

   protected:
    int_type overflow(int_type character) override;
    std::streamsize xsputn(const char* bytes, std::streamsize count) override;
    int sync() override { return below_->pubsync(); }

   private:
    bool write(const std::string& text);
    std::streambuf* below_;
    TerminalFilter filter_;
  };

  std::ostream& stream_;
  Buffer buffer_;
  bool is_terminal_;
};

}  // namespace reprise::app
