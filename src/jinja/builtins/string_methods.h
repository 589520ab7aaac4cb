// Parts of Python's str methods that filters and tests use too.
#pragma once

#include "jinja/runtime.h"

#include <string_view>

namespace reprise::jinja {

/// str.isupper and str.islower: there is a cased character, and all cased characters have this
/// case.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

/// The lines of a text, without their ends or with them.
class LineReader {
 public:
  explicit LineReader(std::string_view text, bool keep_ends = false)
      : rest_(text), keep_ends_(keep_ends) {}
  bool next(std::string_view& line);

 private:
  std::string_view rest_;
  bool keep_ends_;
};

/// `count` < 0: replaces all occurrences.
Value replace(Runtime& runtime,
              std::string_view text,
              std::string_view old_part,
              std::string_view new_part,
              int64_t count);

enum class Alignment { Left, Center, Right };
/// Adds the text, padded with `fill` to `width` characters.
void add_padded(TextBuilder& out,
                std::string_view text,
                int64_t width,
                Alignment alignment,
                std::string_view fill = " ");

}  // namespace reprise::jinja
