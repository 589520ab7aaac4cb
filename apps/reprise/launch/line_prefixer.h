// Merges the output of several processes into one stream of whole lines with prefixes.
#pragma once

#include <string>
#include <string_view>

namespace reprise::app {

/// Buffers one output stream of a process and writes it line by line with a prefix. Each line is
/// one write, so that lines of different processes never mix.
class LinePrefixer {
 public:
  /// The caller owns `descriptor`. On a terminal, a line first clears the progress line that rank 0
  /// may be redrawing there.
  LinePrefixer(std::string prefix, int descriptor);

  /// Takes bytes as they arrive. An incomplete last line waits for its rest.
  void add(std::string_view bytes);
  /// Writes an incomplete last line. Call it at the end of the stream.
  void finish();

 private:
  void write_line(std::string_view line) const;

  bool is_terminal_;
  std::string prefix_;
  int descriptor_;
  std::string waiting_;
};

}  // namespace reprise::app
