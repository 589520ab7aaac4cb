// TokenStream.
#include "jinja/syntax/token_stream.h"

#include "jinja/values/value.h"

namespace reprise::jinja {

const Token& TokenStream::look_ahead() const {
  return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
}

const Token& TokenStream::take() {
  const Token& token = tokens_[position_];
  position_ += position_ + 1 < tokens_.size() ? 1 : 0;
  return token;
}

bool TokenStream::skip_operator(std::string_view symbol) {
  const bool found = current().is_operator(symbol);
  if (found) {
    take();
  }
  return found;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool found = current().is_name(name);
  if (found) {
    take();
  }
  return found;
}

void TokenStream::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) {
    fail_expected(symbol);
  }
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) {
    fail_expected(name);
  }
}

std::string TokenStream::expect_any_name() {
  if (current().kind != TokenKind::Name) {
    fail_expected("a name");
  }
  return take().text;
}

void TokenStream::expect(TokenKind kind) {
  if (current().kind != kind) {
    Token wanted;
    wanted.kind = kind;
    fail_expected(describe(wanted));
  }
  take();
}

void TokenStream::fail_expected(std::string_view expected) const {
  throw Failure("expected '" + std::string(expected) + "', found '" + describe(current()) + "'",
                line());
}

}  // namespace reprise::jinja
