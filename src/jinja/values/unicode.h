// Code points and their properties, for Python's str methods. All texts are valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::jinja {

using CodePoints = std::vector<int32_t>;

/// The code point at `position`, which is moved past it.
int32_t next_code_point(std::string_view text, size_t& position);
CodePoints decode(std::string_view text);
void append_code_point(std::string& text, int32_t code_point);
std::string encode(const CodePoints& code_points);
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

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);
std::string swap_case(std::string_view text);
std::string case_fold(std::string_view text);

enum class Side { Left, Right, Both };
/// Strips the characters in `characters` (spaces, if null) from the ends.
std::string_view strip(std::string_view text, Side side, const std::string* characters = nullptr);

}  // namespace reprise::jinja
