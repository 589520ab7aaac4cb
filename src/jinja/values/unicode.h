// Code points and their properties, for Python's str methods. All texts are valid UTF-8, and are
// read in one pass, without a copy.
#pragma once

#include "jinja/values/builders.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::jinja {

/// The code point at `position`, which is moved past it.
int32_t next_code_point(std::string_view text, size_t& position);
/// The code point that ends at `position`, which is moved before it.
int32_t previous_code_point(std::string_view text, size_t& position);
void append_code_point(std::string& text, int32_t code_point);
size_t count_code_points(std::string_view text);
/// The byte offset of the code point with this index; text.size() past the end.
size_t byte_offset(std::string_view text, size_t index);

bool is_space(int32_t code_point);  ///< str.isspace, and \s of a regular expression
bool is_line_break(int32_t code_point);
bool is_alpha(int32_t code_point);
bool is_decimal(int32_t code_point);
bool is_digit(int32_t code_point);
bool is_alnum(int32_t code_point);
bool is_upper(int32_t code_point);
bool is_lower(int32_t code_point);
bool is_title(int32_t code_point);
bool is_printable(int32_t code_point);
bool is_identifier_start(int32_t code_point);
bool is_identifier_part(int32_t code_point);

// Each adds the changed text.
void to_upper(TextBuilder& out, std::string_view text);
void to_lower(TextBuilder& out, std::string_view text);
void capitalize(TextBuilder& out, std::string_view text);
void title_case(TextBuilder& out, std::string_view text);
void swap_case(TextBuilder& out, std::string_view text);
void case_fold(TextBuilder& out, std::string_view text);

enum class Side { Left, Right, Both };
std::string_view strip(std::string_view text, Side side);  ///< of spaces
/// Strips the characters in `characters`. Charges each comparison with one of them.
std::string_view strip(Budget& budget,
                       std::string_view text,
                       Side side,
                       std::string_view characters);

}  // namespace reprise::jinja
