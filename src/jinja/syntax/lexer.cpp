// The lexer: text up to the next tag, then the tokens of the tag.
#include "jinja/syntax/lexer.h"

#include "jinja/syntax/literals.h"
#include "jinja/values/unicode.h"
#include "jinja/values/value.h"

#include <algorithm>
#include <array>

namespace reprise::jinja {
namespace {

std::string normalize_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) {
    result.pop_back();
  }
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) {
      text_until_tag();
    }
    add(TokenKind::End);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw Failure(message, line_); }

  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  bool at(std::string_view text) const { return rest().starts_with(text); }

  Token& add(TokenKind kind, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    return tokens_.emplace_back(std::move(token));
  }

  void advance(size_t count) {
    const std::string_view skipped = rest().substr(0, count);
    line_ += static_cast<int>(std::count(skipped.begin(), skipped.end(), '\n'));
    position_ += skipped.size();
    starts_line_ = !skipped.empty() ? skipped.back() == '\n' : starts_line_;
  }

  void skip_spaces() {
    const std::string_view left = rest();
    advance(left.size() - strip(left, Side::Left).size());
  }

  static size_t find_tag(std::string_view text) {
    for (size_t i = text.find('{'); i != std::string_view::npos; i = text.find('{', i + 1)) {
      if (i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '%' || text[i + 1] == '#')) {
        return i;
      }
    }
    return text.size();
  }

  // The text before a tag, without the whitespace that its sign or lstrip_blocks removes.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') {
      return strip(text, Side::Right);
    }
    if (sign == '+' || is_variable) {
      return text;
    }
    const size_t line_start = text.rfind('\n') + 1;
    if (line_start == 0 && !starts_line_) {
      return text;
    }
    const std::string_view indent = text.substr(line_start);
    return strip(indent, Side::Left).empty() ? text.substr(0, line_start) : text;
  }

  void text_until_tag() {
    const std::string_view left = rest();
    const size_t length = find_tag(left);
    if (length == left.size()) {
      add(TokenKind::Data, std::string(left));
      return advance(length);
    }
    const char type = left[length + 1];
    const char after = length + 2 < left.size() ? left[length + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    const std::string_view text = before_tag(left.substr(0, length), sign, type == '{');
    if (!text.empty()) {
      add(TokenKind::Data, std::string(text));
    }
    advance(length);
    if (type == '%' && raw_block()) {
      return;
    }
    advance(sign == '\0' ? 2 : 3);
    if (type == '#') {
      return comment();
    }
    add(type == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin);
    inside_tag(type == '{' ? "}}" : "%}");
  }

  // Moves past the end of a block tag or comment. `-` removes all whitespace after it; without a
  // sign one newline is removed.
  void end_of_tag(std::string_view end, char sign) {
    advance(end.size() + (sign == '\0' ? 0 : 1));
    if (sign == '-') {
      skip_spaces();
    } else if (sign == '\0' && end != "}}" && at("\n")) {
      advance(1);
    }
  }

  void comment() {
    const size_t end = rest().find("#}");
    if (end == std::string_view::npos) {
      fail("Missing end of comment tag");
    }
    const char before = end > 0 ? rest()[end - 1] : '\0';
    const char sign = before == '-' || before == '+' ? before : '\0';
    advance(end - (sign == '\0' ? 0 : 1));
    end_of_tag("#}", sign);
  }

  // Matches `{%` sign spaces `name` spaces sign `%}` at `from`. Returns its length, or 0, and
  // stores the signs.
  size_t match_word_tag(size_t from, std::string_view name, char& first, char& last) const {
    const std::string_view text = std::string_view(source_).substr(from);
    if (!text.starts_with("{%")) {
      return 0;
    }
    size_t i = 2;
    const auto sign = [&]() -> char {
      return i < text.size() && (text[i] == '-' || text[i] == '+') ? text[i++] : '\0';
    };
    const auto spaces = [&] { i = text.size() - strip(text.substr(i), Side::Left).size(); };
    first = sign();
    spaces();
    if (!text.substr(i).starts_with(name)) {
      return 0;
    }
    i += name.size();
    spaces();
    last = sign();
    return text.substr(i).starts_with("%}") ? i + 2 : 0;
  }

  bool raw_block() {
    char first = '\0';
    char last = '\0';
    const size_t length = match_word_tag(position_, "raw", first, last);
    // jinja2 removes no newline after the opening tag and does not accept `+` there.
    if (length == 0 || last == '+') {
      return false;
    }
    advance(length);
    if (last == '-') {
      skip_spaces();
    }
    for (size_t from = source_.find("{%", position_); from != std::string::npos;
         from = source_.find("{%", from + 1)) {
      if (const size_t closing = match_word_tag(from, "endraw", first, last)) {
        const std::string_view text = before_tag(rest().substr(0, from - position_), first, false);
        if (!text.empty()) {
          add(TokenKind::Data, std::string(text));
        }
        advance(from + closing - 2 - (last == '\0' ? 0 : 1) - position_);
        end_of_tag("%}", last);
        return true;
      }
    }
    fail("Missing end of raw directive");
  }

  void inside_tag(std::string_view end) {
    std::vector<char> open;
    while (true) {
      skip_spaces();
      if (position_ >= source_.size()) {
        return;  // the parser reports what it expected
      }
      if (open.empty() && tag_ends(end)) {
        return;
      }
      token(open);
    }
  }

  bool tag_ends(std::string_view end) {
    const bool is_variable = end == "}}";
    char sign = '\0';
    if (at("-") || (at("+") && !is_variable)) {
      sign = rest()[0];
    }
    if (!rest().substr(sign == '\0' ? 0 : 1).starts_with(end)) {
      return false;
    }
    add(is_variable ? TokenKind::VariableEnd : TokenKind::BlockEnd);
    end_of_tag(end, sign);
    return true;
  }

  void token(std::vector<char>& open) {
    const char first = rest()[0];
    if (first >= '0' && first <= '9') {
      return number();
    }
    if (first == '\'' || first == '"') {
      return string(first);
    }
    if (identifier()) {
      return;
    }
    symbol(open);
  }

  void number() {
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    const NumberLiteral literal = read_number(rest(), after_dot, line_);
    Token& token = add(literal.is_float ? TokenKind::Float : TokenKind::Integer,
                       std::string(rest().substr(0, literal.length)));
    token.integer = literal.integer;
    token.number = literal.number;
    advance(literal.length);
  }

  void string(char mark) {
    const std::string_view left = rest();
    size_t i = 1;
    while (i < left.size() && left[i] != mark) {
      i += left[i] == '\\' ? 2 : 1;
    }
    if (i >= left.size()) {
      fail(std::string("a string that starts with ") + mark + " has no end");
    }
    add(TokenKind::String, unescape(left.substr(1, i - 1), line_));
    advance(i + 1);
  }

  bool identifier() {
    const std::string_view left = rest();
    size_t end = 0;
    size_t next = 0;
    if (!is_identifier_start(next_code_point(left, next))) {
      return false;
    }
    do {
      end = next;
    } while (end < left.size() && is_identifier_part(next_code_point(left, next)));
    add(TokenKind::Name, std::string(left.substr(0, end)));
    advance(end);
    return true;
  }

  void symbol(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 26> kSymbols = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::find_if(
        kSymbols.begin(), kSymbols.end(), [&](std::string_view symbol) { return at(symbol); });
    if (found == kSymbols.end()) {
      size_t length = 0;
      next_code_point(rest(), length);
      fail("unexpected char '" + std::string(rest().substr(0, length)) + "'");
    }
    const char c = found->front();
    if (*found == "(" || *found == "[" || *found == "{") {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (*found == ")" || *found == "]" || *found == "}") {
      if (open.empty()) {
        fail(std::string("unexpected '") + c + "'");
      }
      if (open.back() != c) {
        fail(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
      }
      open.pop_back();
    }
    add(TokenKind::Operator, std::string(*found));
    advance(found->size());
  }

  std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Data:
      return "template data";
    case TokenKind::VariableBegin:
      return "begin of print statement";
    case TokenKind::VariableEnd:
      return "end of print statement";
    case TokenKind::BlockBegin:
      return "begin of statement block";
    case TokenKind::BlockEnd:
      return "end of statement block";
    case TokenKind::String:
      return "string";
    case TokenKind::End:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace reprise::jinja
