// Parts of Python's str methods that filters and tests use too.
#pragma once

#include "jinja/runtime.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::jinja {

/// str.isupper and str.islower: there is a cased character, and all cased characters have this
/// case.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// `count` < 0: replaces all occurrences. Charges the result before building it.
std::string replace(Runtime& runtime,
                    std::string_view text,
                    std::string_view old_part,
                    std::string_view new_part,
                    int64_t count);

enum class Alignment { Left, Center, Right };
/// Padded with `fill` to `width` characters.
std::string pad(Runtime& runtime,
                std::string_view text,
                int64_t width,
                Alignment alignment,
                std::string_view fill = " ");

}  // namespace reprise::jinja
