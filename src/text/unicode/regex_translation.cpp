// Translates Oniguruma's Ruby syntax to PCRE2's. The differences are:
//   \s \w \d \h \p{..}   other sets (regex_sets.h)           \b     built from \w
//   (?m:..)              means (?s:..)                       (?i)   extends to the end of its group
//   x{n,m}+              repeats x{n,m}, is not possessive   {,n}   means {0,n}
//   [a[bc]]              is a union                          \v     is U+000B alone
// ^ and $ match at every line in both (PCRE2_MULTILINE).
//
// Note [Work of a match]
// PCRE2's limits do not bound a match: under JIT they count again from each start, and a scan such
// as that of \s+ counts as one. So the translation has a callout (?C) at its start and after every
// group, quantifier, back-reference and \X; what is repeated has it inside. Between two of them a
// match does work in proportion to the pattern and to how far the position moves; (?C2) comes
// before a back-reference, which may compare the longest group in vain. Regex::find_all adds this
// up.
#include "text/unicode/regex.h"
#include "text/unicode/regex_sets.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <cctype>
#include <utility>

namespace reprise::text {
namespace {

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    out_ = "(?C)";
    groups_.push_back({0, 0});
    begin_atom();
    while (at_ < in_.size()) {
      step();
    }
    TORCH_CHECK(groups_.size() == 1, "a group is not closed");
    count_work();
    close_options();
    return std::move(out_);
  }

 private:
  struct Group {
    size_t start;     // in out_
    size_t to_close;  // groups opened for options without a colon
  };

  bool looking_at(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  /// Records where the atom begins that a following quantifier would repeat.
  void begin_atom() { atom_ = out_.size(); }

  /// Writes the callout that is due, once no quantifier can follow any more.
  void count_work() { out_ += std::exchange(callout_is_due_, false) ? "(?C)" : ""; }

  void step();
  void escape();
  void back_reference();
  void group();
  void options();
  void quantifier();
  std::string interval();
  void close_options();
  void set(const CharacterSet& set);
  CharacterSet property();
  std::string code_point_escape();

  void character_class();
  void class_escape(std::string& inside);
  void class_posix(std::string& inside);

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;
  bool callout_is_due_ = false;  // after the atom: see Note [Work of a match]
  std::vector<Group> groups_;
};

void Translator::step() {
  const char c = in_[at_];
  if (std::string_view("*+?{").find(c) == std::string_view::npos) {
    count_work();
  }
  switch (c) {
    case '\\':
      return escape();
    case '[':
      return character_class();
    case '(':
      return group();
    case ')': {
      TORCH_CHECK(groups_.size() > 1, "a parenthesis closes nothing");
      close_options();
      out_ += ')';
      ++at_;
      atom_ = groups_.back().start;
      callout_is_due_ = true;
      groups_.pop_back();
      return;
    }
    case '*':
    case '+':
    case '?':
    case '{':
      return quantifier();
    default: {
      if (c != '|') {
        begin_atom();
      }
      const size_t length = std::min(utf8_length(c), in_.size() - at_);
      out_ += in_.substr(at_, length);
      at_ += length;
      if (c == '|') {
        begin_atom();
      }
    }
  }
}

void Translator::set(const CharacterSet& set) {
  begin_atom();
  out_ += set.inside.empty() ? "[^" + set.outside + "]" : "[" + set.inside + "]";
}

/// \p{Name}, \P{Name} or \p{^Name}; at_ is after the p.
CharacterSet Translator::property() {
  const bool upper = in_[at_ - 1] == 'P';
  const size_t end = in_.find('}', at_);
  TORCH_CHECK(looking_at("{") && end != std::string_view::npos, "\\p without {a name}");
  std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
  const bool circumflex = name.starts_with('^');
  if (circumflex) {
    name.remove_prefix(1);
  }
  at_ = end + 1;
  return upper != circumflex ? CharacterSet{{}, property_set(name)}
                             : CharacterSet{property_set(name), {}};
}

/// \xHH, \x{H..} or \uHHHH; at_ is at the x or u.
std::string Translator::code_point_escape() {
  const bool is_u = in_[at_++] == 'u';
  std::string digits;
  if (!is_u && looking_at("{")) {
    const size_t end = in_.find('}', at_);
    TORCH_CHECK(end != std::string_view::npos, "\\x{ without }");
    digits = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
  } else {
    const size_t most = is_u ? 4 : 2;
    while (digits.size() < most && at_ < in_.size() &&
           std::isxdigit(static_cast<unsigned char>(in_[at_])) != 0) {
      digits += in_[at_++];
    }
    TORCH_CHECK(!is_u || digits.size() == 4, "\\u without four digits");
  }
  TORCH_CHECK(!digits.empty() && digits.size() <= 8 &&
                  digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos,
              "\\x without hexadecimal digits");
  const unsigned long value = std::stoul(digits, nullptr, 16);
  TORCH_CHECK(is_u || value < 0x80 || in_[at_ - 1] == '}', "\\x of a byte that is not ASCII");
  return "\\x{" + digits + "}";
}

void Translator::escape() {
  ++at_;
  TORCH_CHECK(at_ < in_.size(), "a backslash ends the pattern");
  const char c = in_[at_];
  if (const auto shorthand = shorthand_set(c)) {
    ++at_;
    return set(*shorthand);
  }
  if (c == 'p' || c == 'P') {
    ++at_;
    return set(property());
  }
  begin_atom();
  if (c == 'x' || c == 'u') {
    out_ += code_point_escape();
    return;
  }
  ++at_;
  if (c == 'b' || c == 'B') {
    const std::string word = "[" + shorthand_set('w')->inside + "]";
    out_ += c == 'b' ? "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))"
                     : "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
    return;
  }
  if (c == 'v') {
    out_ += "\\x{B}";
    return;
  }
  if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
    TORCH_CHECK(std::string_view("nrtfaeAZzGRXk").find(c) != std::string_view::npos,
                "\\",
                c,
                " is not supported");
  }
  callout_is_due_ = c == 'X';
  if (c == 'k' || (c >= '1' && c <= '9')) {
    return back_reference();
  }
  out_ += '\\';
  const size_t length = std::min(utf8_length(c), in_.size() - at_ + 1);
  if (length > 1) {
    out_.pop_back();  // an escaped non-ASCII character is literal
  }
  out_ += in_.substr(at_ - 1, length);
  at_ += length - 1;
}

/// \1 or \k<name>; at_ is after the digit or the k.
void Translator::back_reference() {
  const size_t begin = at_ - 1;
  if (in_[begin] == 'k') {
    const size_t end = in_.find(looking_at("'") ? '\'' : '>', at_ + 1);
    TORCH_CHECK((looking_at("<") || looking_at("'")) && end != std::string_view::npos,
                "\\k without <a name>");
    at_ = end + 1;
  }
  while (in_[begin] != 'k' && at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '9') {
    ++at_;
  }
  out_ += "(?C2)\\" + std::string(in_.substr(begin, at_ - begin));
  callout_is_due_ = true;
}

void Translator::close_options() {
  out_.append(groups_.back().to_close, ')');
  groups_.back().to_close = 0;
}

/// (?imx-imx: or (?imx-imx); at_ is after "(?".
void Translator::options() {
  std::string flags;
  while (at_ < in_.size() && in_[at_] != ')' && in_[at_] != ':') {
    const char c = in_[at_++];
    TORCH_CHECK(
        std::string_view("imx-").find(c) != std::string_view::npos, "(?", c, " is not supported");
    flags += c == 'm' ? 's' : c;
  }
  TORCH_CHECK(at_ < in_.size(), "a group is not closed");
  TORCH_CHECK(flags.find('x') == std::string::npos, "(?x is not supported");
  const bool whole_group = in_[at_++] == ')';
  if (whole_group) {
    ++groups_.back().to_close;
  } else {
    groups_.push_back({out_.size(), 0});
  }
  out_ += "(?" + flags + ":";
}

void Translator::group() {
  ++at_;
  begin_atom();
  if (!looking_at("?")) {
    groups_.push_back({out_.size(), 0});
    out_ += '(';
    return;
  }
  ++at_;
  if (looking_at("#")) {
    const size_t end = in_.find(')', at_);
    TORCH_CHECK(end != std::string_view::npos, "a comment is not closed");
    at_ = end + 1;
    return;
  }
  for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
    if (looking_at(kind)) {
      groups_.push_back({out_.size(), 0});
      out_ += "(?" + std::string(kind);
      at_ += kind.size();
      return;
    }
  }
  if (looking_at("<")) {
    const size_t end = in_.find('>', at_);
    TORCH_CHECK(end != std::string_view::npos, "a group's name is not closed");
    groups_.push_back({out_.size(), 0});
    out_ += "(?" + std::string(in_.substr(at_, end + 1 - at_));
    at_ = end + 1;
    return;
  }
  options();
}

/// "{n}", "{n,}", "{n,m}" or "{,m}" at at_, in PCRE2's syntax; empty if the brace is literal.
std::string Translator::interval() {
  const size_t end = in_.find('}', at_);
  if (end == std::string_view::npos) {
    return {};
  }
  const std::string_view body = in_.substr(at_ + 1, end - at_ - 1);
  const size_t comma = body.find(',');
  const std::string low(body.substr(0, comma));
  const std::string high(comma == std::string_view::npos ? "" : body.substr(comma + 1));
  const auto is_number = [](const std::string& text) {
    return text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(low) || !is_number(high) || (low.empty() && high.empty())) {
    return {};
  }
  at_ = end + 1;
  return "{" + (low.empty() ? "0" : low) + (comma == std::string_view::npos ? "" : ",") + high +
         "}";
}

void Translator::quantifier() {
  const bool is_brace = in_[at_] == '{';
  std::string text = is_brace ? interval() : std::string(1, in_[at_++]);
  if (text.empty()) {
    count_work();
    begin_atom();
    out_ += "\\{";
    ++at_;
    return;
  }
  TORCH_CHECK(atom_ < out_.size(), "a quantifier repeats nothing");
  if (callout_is_due_) {
    out_.insert(atom_, "(?:");
    out_ += "(?C))";
  }
  const bool reluctant_interval = is_brace && text.find(',') != std::string::npos;
  if (looking_at("?") && (!is_brace || reluctant_interval)) {
    text += '?';
    ++at_;
  } else if (looking_at("+") && !is_brace) {
    text += '+';
    ++at_;
  }
  out_ += text;
  callout_is_due_ = true;
}

void Translator::class_escape(std::string& inside) {
  ++at_;
  TORCH_CHECK(at_ < in_.size(), "a backslash ends the pattern");
  const char c = in_[at_];
  const auto shorthand = shorthand_set(c);
  if (shorthand || c == 'p' || c == 'P') {
    ++at_;
    const CharacterSet set = shorthand ? *shorthand : property();
    TORCH_CHECK(!set.inside.empty(), "\\", c, " inside [...] is not supported");
    inside += set.inside;
    return;
  }
  if (c == 'x' || c == 'u') {
    inside += code_point_escape();
    return;
  }
  ++at_;
  if (c == 'v') {
    inside += "\\x{B}";
    return;
  }
  if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
    TORCH_CHECK(std::string_view("nrtfaeb").find(c) != std::string_view::npos,
                "\\",
                c,
                " inside [...] is not supported");
  }
  const bool ascii = static_cast<unsigned char>(c) < 0x80;
  inside += ascii ? "\\" : "";
  inside += c;
}

/// [:name:] inside a class; at_ is at its bracket.
void Translator::class_posix(std::string& inside) {
  const size_t end = in_.find(":]", at_ + 2);
  TORCH_CHECK(end != std::string_view::npos, "[: without :]");
  const std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
  at_ = end + 2;
  if (name == "xdigit") {
    inside += shorthand_set('h')->inside;
    return;
  }
  const std::string set = property_set(name);
  TORCH_CHECK(set.find("sc:") == std::string::npos, "[:", name, ":] is not supported");
  inside += set;
}

void Translator::character_class() {
  begin_atom();
  ++at_;
  std::string inside = "[";
  if (looking_at("^")) {
    inside += '^';
    ++at_;
  }
  size_t depth = 1;
  for (bool first = true; depth > 0; first = false) {
    TORCH_CHECK(at_ < in_.size(), "[ without ]");
    TORCH_CHECK(!looking_at("&&"), "&& inside [...] is not supported");
    const char c = in_[at_];
    if (looking_at("[:")) {
      class_posix(inside);
    } else if (c == '[') {
      // A nested class is a union.
      TORCH_CHECK(!looking_at("[^"), "[^...] inside [...] is not supported");
      ++depth;
      ++at_;
    } else if (c == ']' && first) {
      TORCH_CHECK(false, "[] is empty");
    } else if (c == ']') {
      --depth;
      ++at_;
    } else if (c == '\\') {
      class_escape(inside);
    } else {
      inside += c;
      ++at_;
    }
  }
  out_ += inside + "]";
}

}  // namespace

std::string translate_regex(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace reprise::text
