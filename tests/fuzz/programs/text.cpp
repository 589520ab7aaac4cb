#include "fuzz/programs/text.h"

#include <cctype>
#include <sstream>

namespace reprise::fuzz {
namespace {

std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

}  // namespace

std::string name_of(Register reg) {
  return "r" + std::to_string(reg);
}

std::string names_of(const std::vector<Register>& list, const std::string& before) {
  std::string text;
  for (const Register reg : list) {
    text += (text.empty() ? "" : ", ") + before + name_of(reg);
  }
  return text;
}

std::string dtype_text(c10::ScalarType dtype) {
  return dtype == c10::kDouble         ? "torch::kDouble"
         : dtype == c10::kComplexFloat ? "torch::kComplexFloat"
                                       : "torch::kFloat";
}

std::string expression(const Instruction& instruction, const Operator& row) {
  std::string text;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t i = 0; i < row.text.size();) {
    size_t end = i;
    while (end < row.text.size() && is_word(row.text[end])) {
      ++end;
    }
    const auto word = row.text.substr(i, end - i);
    if (word.empty()) {
      text += row.text[i++];
      continue;
    }
    if (word == "x" && row.text.substr(end, 1) == "(") {
      text += name_of(instruction.inputs[static_cast<size_t>(row.text[end + 1] - '0')]);
      end += 3;
    } else if (word == "num") {
      text += number_text(instruction.number);
    } else if (word == "k") {
      text += std::to_string(instruction.integer);
    } else if (word == "gen") {
      const bool is_explicit = instruction.generator != kDefaultGenerator;
      text += is_explicit ? "std::optional(g" + std::to_string(instruction.generator) + ")"
                          : "std::optional<at::Generator>()";
    } else {
      text += word;
    }
    i = end;
  }
  return text;
}

std::string broken_up(std::string_view code) {
  std::string out;
  std::string open;  // brackets
  size_t braces = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    out += c;
    if (c == '(' || c == '{') {
      open += c;
      braces += c == '{' ? 1 : 0;
    } else if (c == ')' || c == '}') {
      open.pop_back();
      braces -= c == '}' ? 1 : 0;
    }
    // Not in the head of a loop, and not in a braced list of values.
    const bool is_statement = open.empty() || open.back() == '{';
    const bool ends = is_statement && (c == ';' || c == '{' || c == '}');
    const auto next = code.substr(i + 1, 2);
    if (ends && next.starts_with(' ') && next != " ;") {
      out += "\n" + std::string((braces - (next == " }" ? 1 : 0)) * 2, ' ');
      ++i;
    }
  }
  return out;
}

}  // namespace reprise::fuzz
