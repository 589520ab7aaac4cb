#include "model/lora/lora_pattern.h"

#include <c10/util/Exception.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

namespace reprise {

namespace {

constexpr size_t kMaxLength = size_t{64} << 10;
constexpr uint32_t kMatchLimit = 1'000'000;
constexpr uint32_t kHeapLimitKib = 16 << 10;

template <class T, void (*free)(T*)>
struct Freed {
  void operator()(T* object) const { free(object); }
};
using MatchContext =
    std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context, pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data, pcre2_match_data_free>>;

std::string error_text(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

PCRE2_SPTR units(const std::string& text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

MatchContext limited_context() {
  MatchContext context(pcre2_match_context_create(nullptr));
  TORCH_CHECK(context != nullptr, "[lora] out of memory.");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  return context;
}

}  // namespace

ModulePattern::ModulePattern(const std::string& expression, std::string field)
    : field_(std::move(field)) {
  TORCH_CHECK(expression.size() <= kMaxLength,
              "[lora] ",
              field_,
              ": a regular expression of ",
              expression.size(),
              " bytes: expected at most ",
              kMaxLength);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto* code = pcre2_compile(units(expression),
                             expression.size(),
                             PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_UCP,
                             &error,
                             &offset,
                             nullptr);
  TORCH_CHECK(code != nullptr,
              "[lora] ",
              field_,
              ": \"",
              expression,
              "\" is not a regular expression: ",
              error_text(error),
              " (at byte ",
              offset,
              ").");
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
}

std::optional<std::string> ModulePattern::find(const std::string& path, const char* group) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const MatchContext context = limited_context();
  const MatchData data(pcre2_match_data_create_from_pattern(code, nullptr));
  TORCH_CHECK(data != nullptr, "[lora] out of memory.");
  const int result = pcre2_match(code, units(path), path.size(), 0, 0, data.get(), context.get());
  if (result == PCRE2_ERROR_NOMATCH) {
    return std::nullopt;
  }
  TORCH_CHECK(
      result >= 0, "[lora] ", field_, ": matching \"", path, "\" failed: ", error_text(result));
  if (group == nullptr) {
    return path;
  }
  const int number = pcre2_substring_number_from_name(code, reinterpret_cast<PCRE2_SPTR>(group));
  TORCH_INTERNAL_ASSERT(number > 0);
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get()) + ptrdiff_t{2} * number;
  return ends[0] == PCRE2_UNSET ? std::nullopt
                                : std::optional(path.substr(ends[0], ends[1] - ends[0]));
}

}  // namespace reprise
