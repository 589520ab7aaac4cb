// What several processes print, as one stream of whole lines that say whose they are.
#pragma once

#include <string>
#include <string_view>

namespace reprise::app {

/// Collects what one process prints on one of its streams and writes it line by line, each with the
/// prefix in front and in one piece, so that lines of different processes never mix.
class LinePrefixer {
 public:
  /// `descriptor` stays the caller's. On a terminal a line first clears the one that the first
  /// process may be redrawing there.
  LinePrefixer(std::string prefix, int descriptor);

  /// Bytes as they come. What is behind the last newline waits for the rest of its line.
  void add(std::string_view bytes);
  /// No more will come: writes what waits, as a line.
  void finish();

 private:
  void write_line(std::string_view line) const;

  std::string prefix_;
  int descriptor_;
  std::string waiting_;
};

}  // namespace reprise::app
