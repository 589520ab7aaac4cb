// Regex with PCRE2: compiled once, JIT if available. The work of all matches in a text is counted.
#include "text/unicode/regex.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstring>

namespace reprise::text {
namespace {

constexpr uint32_t kHeapLimitKiB = 256 << 10;  // for backtracking
constexpr size_t kLongestPattern = 64 << 10;
constexpr size_t kShown = 300;  // bytes of a pattern in messages

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

/// What a thread needs to match, made once, so that matching does not allocate.
struct MatchState {
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
};

MatchState& match_state() {
  thread_local MatchState state;
  TORCH_CHECK(state.data != nullptr && state.context != nullptr,
              "[tokenizer] no memory for a regular expression's match");
  pcre2_set_heap_limit(state.context.get(), kHeapLimitKiB);
  pcre2_set_match_limit(state.context.get(), UINT32_MAX);  // Work bounds it
  return state;
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> code;
};

/// Adds up the work of all matches in a text: see Note [Work of a match].
struct Regex::Work {
  size_t left;
  size_t per_callout;
  size_t position = 0;

  // Called by PCRE2. A negative result ends the match with that error.
  static int count(pcre2_callout_block* block, void* data) {
    auto& work = *static_cast<Work*>(data);
    const size_t at = block->current_position;
    size_t cost = work.per_callout + (at > work.position ? at - work.position : work.position - at);
    work.position = at;
    if (block->callout_number == 2) {  // before a back-reference
      for (size_t i = 1; i < block->capture_top; ++i) {
        const size_t* group = block->offset_vector + 2 * i;
        cost += group[0] != PCRE2_UNSET && group[1] > group[0] ? group[1] - group[0] : 0;
      }
    }
    if (cost > work.left) {
      return PCRE2_ERROR_CALLOUT;
    }
    work.left -= cost;
    return 0;
  }
};

std::string Regex::described() const {
  return where_ + ": regular expression \"" + pattern_.substr(0, kShown) +
         (pattern_.size() > kShown ? "...\"" : "\"");
}

Regex::Regex(std::string_view pattern, const std::string& where)
    : pattern_(pattern), where_(where) {
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
    TORCH_CHECK(false, "[tokenizer] ", described(), ": ", error.what_without_backtrace());
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
              described(),
              ": PCRE2 refuses it as \"",
              translated.substr(0, kShown),
              "\" at byte ",
              offset,
              ": ",
              error_text(error));
  // Falls back to the interpreter without a JIT compiler; both give the same matches.
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

std::optional<std::pair<size_t, size_t>> Regex::find(std::string_view text,
                                                     size_t from,
                                                     Work& work) const {
  MatchState& state = match_state();
  pcre2_set_callout(state.context.get(), Work::count, &work);
  const auto match = [&](uint32_t options) {
    work.position = from;
    return pcre2_match(code_->code.get(),
                       bytes(text),
                       text.size(),
                       from,
                       PCRE2_NO_UTF_CHECK | options,
                       state.data.get(),
                       state.context.get());
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = match(PCRE2_NO_JIT);  // the interpreter backtracks on the heap
  }
  if (result == PCRE2_ERROR_NOMATCH) {
    return std::nullopt;
  }
  TORCH_CHECK(result != PCRE2_ERROR_CALLOUT,
              "[tokenizer] ",
              described(),
              " takes more than ",
              most_work(text),
              " steps on a text of ",
              text.size(),
              " bytes (",
              kWorkPerByte,
              " for each byte), up to byte ",
              from,
              "; its work grows faster than the text, so use a pattern that backtracks less");
  TORCH_CHECK(result >= 0,
              "[tokenizer] ",
              described(),
              " at byte ",
              from,
              " of the text: ",
              error_text(result));
  const size_t* match_range = pcre2_get_ovector_pointer(state.data.get());
  // \K can set the start after the end.
  TORCH_CHECK(match_range[0] <= match_range[1] && match_range[0] >= from,
              "[tokenizer] ",
              described(),
              " matches backwards");
  return std::pair(match_range[0], match_range[1]);
}

size_t Regex::most_work(std::string_view text) {
  return kWorkAtLeast + kWorkPerByte * text.size();
}

Ranges Regex::find_all(std::string_view text) const {
  Ranges matches;
  for_each(text, [&](size_t begin, size_t end) {
    matches.emplace_back(begin, end);
    return true;
  });
  return matches;
}

void Regex::for_each(std::string_view text, const VisitRange& visit) const {
  constexpr size_t kPatternBytesPerStep = 16;
  Work work{most_work(text), 1 + pattern_.size() / kPatternBytesPerStep};
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    const auto match = find(text, from, work);
    if (!match) {
      break;
    }
    const auto& [begin, end] = *match;
    if (begin == end && last_end == end) {
      from += from < text.size() ? utf8_length(text[from]) : 1;
      continue;
    }
    if (!visit(begin, end)) {
      break;
    }
    from = end;
    last_end = end;
  }
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
  Ranges matches;
  for_each(text, [&](size_t begin, size_t end) {
    matches.emplace_back(begin, end);
    return true;
  });
  return matches;
}

void Pattern::for_each(std::string_view text, const VisitRange& visit) const {
  if (regex_) {
    regex_->for_each(text, visit);
    return;
  }
  // memmem takes linear time; std::string_view::find takes the product of both lengths.
  for (size_t at = 0; at < text.size();) {
    const void* const found =
        ::memmem(text.data() + at, text.size() - at, literal_.data(), literal_.size());
    if (found == nullptr) {
      break;
    }
    const auto begin = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    at = begin + literal_.size();
    if (!visit(begin, at)) {
      break;
    }
  }
}

}  // namespace reprise::text
