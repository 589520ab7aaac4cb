// Splits a template into tokens, with jinja2's rules for whitespace around tags: trim_blocks and
// lstrip_blocks are on, and the last newline of the template is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::jinja {

enum class TokenKind {
  Data,
  VariableBegin,
  VariableEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  int line = 1;
  std::string text = {};  ///< data, name, string (unescaped) or operator
  int64_t integer = 0;
  double number = 0;

  bool is_operator(std::string_view symbol) const {
    return kind == TokenKind::Operator && text == symbol;
  }
  bool is_name(std::string_view name) const { return kind == TokenKind::Name && text == name; }
};

/// The last token is always an End. Throws Failure with a line. `source` is valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

/// For error messages: 'end of print statement', a name, an operator.
std::string describe(const Token& token);

}  // namespace reprise::jinja
