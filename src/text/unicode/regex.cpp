// Regex with PCRE2: compiled once, JIT if available, with limits.
#include "text/unicode/regex.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace reprise::text {
namespace {

// Limits per match: steps, and KiB of heap for backtracking. Patterns of real tokenizers need a few
// steps per character.
constexpr uint32_t kMatchLimit = 2'000'000;
constexpr uint32_t kHeapLimitKiB = 256 << 10;
constexpr size_t kLongestPattern = 64 << 10;

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

const PCRE2_UCHAR* bytes(std::string_view text) {
  return reinterpret_cast<const PCRE2_UCHAR*>(text.data());
}

/// Thread-local, so that matching does not allocate.
pcre2_match_data* match_data() {
  thread_local const Owned<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
  TORCH_CHECK(data != nullptr, "[tokenizer] no memory for a regular expression's match");
  return data.get();
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
  Owned<pcre2_match_context> limits;
};

Regex::Regex(std::string_view pattern, const std::string& where) : pattern_(pattern) {
  TORCH_CHECK(pattern.size() <= kLongestPattern,
              "[tokenizer] ",
              where,
              ": expected a regular expression of at most ",
              kLongestPattern,
              " bytes, found ",
              pattern.size());
  std::string translated;
  try {
    translated = translate_regex(pattern);
  } catch (const c10::Error& error) {
    TORCH_CHECK(false,
                "[tokenizer] ",
                where,
                ": regular expression \"",
                pattern,
                "\": ",
                error.what_without_backtrace());
  }
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  TORCH_CHECK(context != nullptr, "[tokenizer] no memory for a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->code.reset(pcre2_compile(bytes(translated),
                                 translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error,
                                 &offset,
                                 context.get()));
  TORCH_CHECK(code->code != nullptr,
              "[tokenizer] ",
              where,
              ": regular expression \"",
              pattern,
              "\": PCRE2 refuses it as \"",
              translated,
              "\" at byte ",
              offset,
              ": ",
              error_text(error));
  // Falls back to the interpreter without a JIT compiler; both give the same matches.
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  code->limits.reset(pcre2_match_context_create(nullptr));
  TORCH_CHECK(code->limits != nullptr, "[tokenizer] no memory for a regular expression");
  pcre2_set_match_limit(code->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(code->limits.get(), kHeapLimitKiB);
  code_ = std::move(code);
}

std::optional<std::pair<size_t, size_t>> Regex::find(std::string_view text, size_t from) const {
  const auto match = [&](uint32_t options) {
    return pcre2_match(code_->code.get(),
                       bytes(text),
                       text.size(),
                       from,
                       PCRE2_NO_UTF_CHECK | options,
                       match_data(),
                       code_->limits.get());
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = match(PCRE2_NO_JIT);  // the interpreter backtracks on the heap
  }
  if (result == PCRE2_ERROR_NOMATCH) {
    return std::nullopt;
  }
  TORCH_CHECK(result >= 0,
              "[tokenizer] regular expression \"",
              pattern_,
              "\" at byte ",
              from,
              " of the text: ",
              error_text(result));
  const size_t* match_range = pcre2_get_ovector_pointer(match_data());
  // \K can set the start after the end.
  TORCH_CHECK(match_range[0] <= match_range[1] && match_range[0] >= from,
              "[tokenizer] regular expression \"",
              pattern_,
              "\" matches backwards");
  return std::pair(match_range[0], match_range[1]);
}

Ranges Regex::find_all(std::string_view text) const {
  Ranges matches;
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    const auto match = find(text, from);
    if (!match) {
      break;
    }
    const auto& [begin, end] = *match;
    if (begin == end && last_end == end) {
      from += from < text.size() ? utf8_length(text[from]) : 1;
      continue;
    }
    matches.push_back(*match);
    from = end;
    last_end = end;
  }
  return matches;
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  if (text.empty()) {
    pattern.regex_.emplace("", "empty pattern");  // matches between any two characters
  }
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(Regex regex) {
  Pattern pattern;
  pattern.regex_ = std::move(regex);
  return pattern;
}

Ranges Pattern::find_all(std::string_view text) const {
  if (regex_) {
    return regex_->find_all(text);
  }
  Ranges matches;
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches.emplace_back(at, at + literal_.size());
  }
  return matches;
}

}  // namespace reprise::text
