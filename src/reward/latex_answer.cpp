// Rewrites commands in one pass over the text. The depth of braces is limited, since a completion
// may have any number of them.
#include "reward/latex_answer.h"

#include "reward/written_number.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace reprise::reward {
namespace {

constexpr int kDeepest = 20;
constexpr size_t kLongest = 10'000;  // longer answers are compared without normalisation

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The commands of one character are white space or delimiters of mathematics.
constexpr std::array<std::string_view, 15> kDropped = {"left",
                                                       "right",
                                                       "displaystyle",
                                                       "quad",
                                                       "!",
                                                       ",",
                                                       ";",
                                                       ":",
                                                       " ",
                                                       "\n",
                                                       "$",
                                                       "(",
                                                       ")",
                                                       "[",
                                                       "]"};
constexpr std::array<std::string_view, 4> kFractions = {"frac", "dfrac", "tfrac", "cfrac"};
constexpr std::array<std::string_view, 7> kTexts = {
    "text", "mathrm", "textrm", "textbf", "mathbf", "mbox", "operatorname"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// The position after the brace that closes the one at `open`, or npos.
size_t end_of_group(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '{') {
      ++depth;
    } else if (text[at] == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::string normalized(std::string_view text, int depth);

class LatexNormalizer {
 public:
  LatexNormalizer(std::string_view text, int depth) : text_(text), depth_(depth) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\') {
        take_command();
      } else {
        if (!is_space(c) && c != '$') {
          out_ += c;
        }
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  std::string_view name() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && is_letter(text_[at_])) {
      ++at_;
    }
    if (at_ == begin && at_ < text_.size()) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  /// A group without its braces or, if there is none, one character.
  std::string_view argument() {
    while (at_ < text_.size() && is_space(text_[at_])) {
      ++at_;
    }
    const bool is_group = at_ < text_.size() && text_[at_] == '{';
    const size_t begin = at_;
    const size_t end = is_group ? end_of_group(text_, at_) : std::min(at_ + 1, text_.size());
    if (end == std::string_view::npos) {
      at_ = text_.size();
      return text_.substr(begin + 1);
    }
    at_ = end;
    return is_group ? text_.substr(begin + 1, end - begin - 2) : text_.substr(begin, end - begin);
  }

  void take_command() {
    const std::string_view command = name();
    if (is_one_of(command, kDropped)) {
      return;
    }
    if (is_one_of(command, kFractions)) {
      const std::string above = part(argument());
      const std::string below = part(argument());
      // 1\\frac{1}{2} is one and a half, not 11/2.
      const bool is_mixed = !out_.empty() && out_.back() >= '0' && out_.back() <= '9';
      out_.append(is_mixed ? "+" : "").append(above).append("/").append(below);
    } else if (is_one_of(command, kTexts)) {
      const std::string_view held = argument();
      if (out_.empty() || !is_rest_of_unit()) {
        out_ += normalized(held, depth_ + 1);
      } else {
        at_ = text_.size();
      }
    } else {
      if (command != "%") {
        out_ += '\\';
      }
      out_ += command;
    }
  }

  /// A numerator or denominator: in parentheses unless it is a single number or name.
  std::string part(std::string_view argument) const {
    const std::string inner = normalized(argument, depth_ + 1);
    const bool is_simple = std::all_of(inner.begin(), inner.end(), [](char c) {
      return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
    });
    return is_simple ? inner : "(" + inner + ")";
  }

  /// Whether only a power (as in \text{cm}^2), a dot or a delimiter follows.
  bool is_rest_of_unit() const {
    constexpr std::string_view kRest = " \t\n.$^{}0123456789";
    return text_.find_first_not_of(kRest, at_) == std::string_view::npos;
  }

  std::string_view text_;
  int depth_;
  size_t at_ = 0;
  std::string out_;
};

std::string normalized(std::string_view text, int depth) {
  return depth > kDeepest ? std::string(text) : LatexNormalizer(text, depth).run();
}

std::string normalized_answer(std::string_view text) {
  std::string answer = normalized(text, 0);
  for (const std::string_view end : {".", "^\\circ", "^{\\circ}", "\\circ"}) {
    if (answer.size() > end.size() && answer.ends_with(end)) {
      answer.erase(answer.size() - end.size());
    }
  }
  return answer;
}

}  // namespace

std::optional<std::string> boxed_content(std::string_view text) {
  size_t begin = std::string_view::npos;
  for (const std::string_view command : {"\\boxed", "\\fbox"}) {
    const size_t found = text.rfind(command);
    if (found != std::string_view::npos &&
        (begin == std::string_view::npos || found + command.size() > begin)) {
      begin = found + command.size();
    }
  }
  begin = text.find_first_not_of(" \t\n", begin);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  if (text[begin] != '{') {  // \boxed 5
    const size_t end = text.find_first_of(" \t\n$", begin);
    return std::string(text.substr(begin, end == std::string_view::npos ? end : end - begin));
  }
  const size_t end = end_of_group(text, begin);
  return end == std::string_view::npos
             ? std::nullopt
             : std::optional(std::string(text.substr(begin + 1, end - begin - 2)));
}

bool are_same_latex(std::string_view one, std::string_view other) {
  if (one.size() > kLongest || other.size() > kLongest) {
    return one == other;
  }
  const std::string first = normalized_answer(one);
  const std::string second = normalized_answer(other);
  const auto first_number = whole_number(first);
  const auto second_number = whole_number(second);
  return first == second ||
         (first_number && second_number && have_same_value(*first_number, *second_number));
}

}  // namespace reprise::reward
