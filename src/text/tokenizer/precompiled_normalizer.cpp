// sentencepiece's character map: a double-array trie from byte sequences to offsets in a buffer of
// zero-terminated replacements. It comes from a file, so every index is checked.
#include "text/tokenizer/normalizer.h"
#include "text/unicode/utf8.h"

#include <utf8proc.h>

#include <array>
#include <cstring>
#include <optional>

namespace reprise::text {
namespace {

std::optional<std::string> decode_base64(std::string_view text) {
  std::array<int, 256> value{};
  value.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  while (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = value[static_cast<unsigned char>(c)];
    if (digit < 0) {
      return std::nullopt;
    }
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 0xFF);
    }
  }
  return bytes;
}

/// One unit of the double array (the layout of the darts-clone library).
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return (bits & 0x100) != 0; }
  uint32_t label() const { return bits & 0x800000FF; }
  uint32_t value() const { return bits & 0x7FFFFFFF; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200) >> 6); }
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const JsonFields& fields) {
    const auto blob = decode_base64(fields.string("precompiled_charsmap"));
    uint32_t trie_bytes = 0;
    const bool has_size = blob && blob->size() >= sizeof trie_bytes;
    if (has_size) {
      std::memcpy(&trie_bytes, blob->data(), sizeof trie_bytes);
    }
    if (!has_size || trie_bytes % sizeof(Unit) != 0 ||
        trie_bytes > blob->size() - sizeof trie_bytes) {
      fields.refuse("precompiled_charsmap",
                    "base64 of a length, a trie of that length and replacements",
                    "something else");
    }
    trie_.resize(trie_bytes / sizeof(Unit));
    if (!trie_.empty()) {
      std::memcpy(trie_.data(), blob->data() + sizeof trie_bytes, trie_bytes);
    }
    replacements_ = blob->substr(sizeof trie_bytes + trie_bytes);
    if (valid_utf8_prefix(replacements_) != replacements_.size()) {
      fields.refuse("precompiled_charsmap", "replacements in UTF-8", "other bytes");
    }
  }

  void apply(NormalizedString& text) const override {
    std::vector<Change> changes;
    changes.reserve(text.text().size());
    bool changed = false;
    const std::string_view bytes = text.text();
    for (size_t at = 0; at < bytes.size();) {
      const size_t end = grapheme_end(bytes, at);
      changed = rewrite_grapheme(bytes.substr(at, end - at), changes) || changed;
      at = end;
    }
    if (changed) {
      text.transform(changes);
    }
  }

 private:
  static size_t grapheme_end(std::string_view text, size_t at) {
    utf8proc_int32_t state = 0;
    auto before = static_cast<utf8proc_int32_t>(next_code_point(text, at));
    while (at < text.size()) {
      size_t next = at;
      const auto after = static_cast<utf8proc_int32_t>(next_code_point(text, next));
      if (utf8proc_grapheme_break_stateful(before, after, &state)) {
        break;
      }
      before = after;
      at = next;
    }
    return at;
  }

  /// Like the library: looks up a short grapheme as a whole, otherwise each character.
  bool rewrite_grapheme(std::string_view grapheme, std::vector<Change>& changes) const {
    constexpr size_t kLongestKey = 6;
    if (grapheme.size() < kLongestKey) {
      if (const auto replacement = find(grapheme)) {
        replace(grapheme, *replacement, changes);
        return true;
      }
    }
    bool changed = false;
    for (size_t at = 0; at < grapheme.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(grapheme, at);
      const std::string_view part = grapheme.substr(begin, at - begin);
      if (const auto replacement = find(part)) {
        replace(part, *replacement, changes);
        changed = true;
      } else {
        changes.push_back({c, 0});
      }
    }
    return changed;
  }

  static void replace(std::string_view before,
                      std::string_view after,
                      std::vector<Change>& changes) {
    const size_t old_count = code_points(before).size();
    const std::u32string characters = code_points(after);
    for (size_t i = 0; i < characters.size(); ++i) {
      changes.push_back({characters[i], i < old_count ? 0 : 1});
    }
    if (characters.size() < old_count && !changes.empty()) {
      changes.back().change -= static_cast<int>(old_count - characters.size());
    }
  }

  /// The replacement for the shortest key that is a prefix of `text`.
  std::optional<std::string_view> find(std::string_view text) const {
    if (trie_.empty()) {
      return std::nullopt;
    }
    size_t node = trie_[0].offset();
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= trie_.size() || trie_[node].label() != byte) {
        return std::nullopt;
      }
      const bool has_leaf = trie_[node].has_leaf();
      node ^= trie_[node].offset();
      if (has_leaf && node < trie_.size()) {
        return replacement(trie_[node].value());
      }
    }
    return std::nullopt;
  }

  std::optional<std::string_view> replacement(size_t begin) const {
    if (begin >= replacements_.size() || is_continuation(replacements_[begin])) {
      return std::nullopt;
    }
    const size_t end = replacements_.find('\0', begin);
    return std::string_view(replacements_).substr(begin, end - begin);
  }

  std::vector<Unit> trie_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_precompiled_normalizer(const JsonFields& fields) {
  return std::make_unique<Precompiled>(fields);
}

}  // namespace reprise::text
