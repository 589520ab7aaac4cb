// The four Unicode normal forms, with alignments. utf8proc provides decompositions and combining
// classes but no alignments, so the algorithm is implemented here: decompose, order marks, compose.
#include "text/tokenizer/normalizer.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <utility>

namespace reprise::text {
namespace {

constexpr char32_t kHangulBase = 0xAC00;
constexpr char32_t kLeadBase = 0x1100;
constexpr char32_t kVowelBase = 0x1161;
constexpr char32_t kTailBase = 0x11A7;
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTails = 28;
constexpr char32_t kHangul = kLeads * kVowels * kTails;

/// Whether NFC keeps the character. Only such characters may result from composition.
bool is_stable(char32_t c) {
  std::string text;
  append_utf8(text, c);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> composed(
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), &std::free);
  return composed && text == reinterpret_cast<const char*>(composed.get());
}

uint64_t pair_key(char32_t first, char32_t second) {
  return (static_cast<uint64_t>(first) << 32) | second;
}

/// All pairs that compose, except Hangul syllables. Derived by decomposing every character: one
/// that decomposes to a, b, c is the composition of (a, b composed) and c.
std::unordered_map<uint64_t, char32_t> make_compositions() {
  constexpr char32_t kLast = 0x2FFFF;  // no decompositions beyond
  std::map<std::u32string, char32_t> by_decomposition;
  for (char32_t c = 0xC0; c <= kLast; ++c) {
    if (c >= kHangulBase && c < kHangulBase + kHangul) {
      continue;
    }
    std::u32string parts = decompose(c, false);
    if (parts.size() > 1 && is_stable(c)) {
      by_decomposition.emplace(std::move(parts), c);
    }
  }
  std::unordered_map<uint64_t, char32_t> pairs;
  for (const auto& [parts, composed] : by_decomposition) {
    char32_t first = parts[0];
    if (parts.size() > 2) {
      const auto prefix = by_decomposition.find(parts.substr(0, parts.size() - 1));
      if (prefix == by_decomposition.end()) {
        continue;
      }
      first = prefix->second;
    }
    pairs.emplace(pair_key(first, parts.back()), composed);
  }
  return pairs;
}

/// The composition of two characters, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first >= kLeadBase && first < kLeadBase + kLeads && second >= kVowelBase &&
      second < kVowelBase + kVowels) {
    return kHangulBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kTails;
  }
  if (first >= kHangulBase && first < kHangulBase + kHangul &&
      (first - kHangulBase) % kTails == 0 && second > kTailBase && second < kTailBase + kTails) {
    return first + (second - kTailBase);
  }
  static const auto pairs = make_compositions();
  const auto found = pairs.find(pair_key(first, second));
  return found == pairs.end() ? 0 : found->second;
}

std::vector<Change> decomposed(std::string_view text, bool compatibility) {
  std::vector<Change> result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::u32string parts = decompose(next_code_point(text, at), compatibility);
    for (size_t i = 0; i < parts.size(); ++i) {
      result.push_back({parts[i], i == 0 ? 0 : 1});
    }
  }
  return result;
}

/// Sorts each run of marks by combining class.
void order_marks(std::vector<Change>& characters) {
  const auto by_class = [](const Change& a, const Change& b) {
    return combining_class(a.character) < combining_class(b.character);
  };
  for (auto begin = characters.begin(); begin != characters.end();) {
    if (combining_class(begin->character) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(
        begin, characters.end(), [](const Change& c) { return combining_class(c.character) == 0; });
    std::stable_sort(begin, end, by_class);
    begin = end;
  }
}

std::vector<Change> composed(const std::vector<Change>& characters) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<Change> result;
  result.reserve(characters.size());
  size_t starter = kNone;
  int last_class = 0;  // combining class of the last mark after the starter
  for (const Change& next : characters) {
    const int mark = combining_class(next.character);
    const bool adjacent = starter != kNone && starter + 1 == result.size();
    if (starter != kNone && (adjacent || (last_class != 0 && last_class < mark))) {
      if (const char32_t both = compose(result[starter].character, next.character)) {
        // One character instead of two; their changes add up.
        result[starter] = {both, result[starter].change + next.change - 1};
        continue;
      }
    }
    if (mark == 0) {
      starter = result.size();
    }
    last_class = mark;
    result.push_back(next);
  }
  return result;
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form)
      : compatibility_(form == NormalForm::NFKC || form == NormalForm::NFKD),
        compose_(form == NormalForm::NFC || form == NormalForm::NFKC),
        // Text with only smaller lead bytes (below U+0080, U+0300) is already normalized.
        first_lead_(form == NormalForm::NFC ? 0xCC : 0x80) {}

  void apply(NormalizedString& text) const override {
    const std::string_view bytes = text.text();
    const bool is_normal = std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
      return static_cast<unsigned char>(byte) < first_lead_;
    });
    if (is_normal) {
      return;
    }
    std::vector<Change> characters = decomposed(bytes, compatibility_);
    order_marks(characters);
    text.transform(compose_ ? composed(characters) : characters);
  }

 private:
  bool compatibility_, compose_;
  unsigned char first_lead_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace reprise::text
