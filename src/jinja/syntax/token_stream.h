// Token stream for the parser, with one token of lookahead and "expected ..." errors.
#pragma once

#include "jinja/syntax/lexer.h"

#include <string_view>
#include <vector>

namespace reprise::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& look_ahead() const;
  const Token& take();
  int line() const { return current().line; }

  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);

  // Each consumes the token, or throws Failure with what was expected and found.
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(TokenKind kind);

  [[noreturn]] void fail_expected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;  ///< the last is an End, which is never consumed
  size_t position_ = 0;
};

}  // namespace reprise::jinja
