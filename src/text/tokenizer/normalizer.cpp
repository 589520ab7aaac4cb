// The simple normalizers, and make_normalizer().
#include "text/tokenizer/normalizer.h"

#include "text/tokenizer/byte_level.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

#include <utility>

namespace reprise::text {
namespace {

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(const JsonFields& fields) {
    for (const JsonFields& part : fields.objects("normalizers")) {
      parts_.push_back(make_normalizer(part));
    }
  }
  void apply(NormalizedString& text) const override {
    const size_t original = text.original_size();
    for (const auto& part : parts_) {
      part->apply(text);
      check_growth(original, text.text().size());
    }
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonFields& fields) : prefix_(fields.string("prepend")) {}
  void apply(NormalizedString& text) const override { text.prepend(prefix_); }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonFields& fields)
      : pattern_(read_pattern(fields)), content_(fields.string("content")) {}
  void apply(NormalizedString& text) const override {
    if (!text.empty()) {
      text.replace(pattern_.find_all(text.text()), content_);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const JsonFields& fields)
      : left_(fields.boolean("strip_left")), right_(fields.boolean("strip_right")) {}
  void apply(NormalizedString& text) const override {
    const std::u32string characters = code_points(text.text());
    size_t first = 0;
    size_t last = characters.size();
    while (left_ && first < last && is_white_space(characters[first])) {
      ++first;
    }
    while (right_ && last > first && is_white_space(characters[last - 1])) {
      --last;
    }
    size_t index = 0;
    text.filter([&](char32_t) {
      const bool keep = index >= first && index < last;
      ++index;
      return keep;
    });
  }

 private:
  bool left_, right_;
};

class StripAccents final : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    text.filter([](char32_t c) { return !is_accent(c); });
  }
};

class Lowercase final : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    std::vector<Change> changes;
    changes.reserve(text.text().size());
    bool changed = false;
    for (const char32_t c : code_points(text.text())) {
      const std::u32string lower = to_lower(c);
      changed = changed || lower.size() > 1 || lower[0] != c;
      for (size_t i = 0; i < lower.size(); ++i) {
        changes.push_back({lower[i], i == 0 ? 0 : 1});
      }
    }
    if (changed) {
      text.transform(changes);
    }
  }
};

/// sentencepiece's nmt: removes control characters and maps unusual spaces to spaces.
class Nmt final : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    text.filter([](char32_t c) {
      const bool control = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                           c == 0x7F || c == 0x8F || c == 0x9F;
      return !control;
    });
    std::vector<Change> changes;
    changes.reserve(text.text().size());
    bool changed = false;
    for (const char32_t c : code_points(text.text())) {
      const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      changed = changed || space;
      changes.push_back({space ? U' ' : c, 0});
    }
    if (changed) {
      text.transform(changes);
    }
  }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    NormalizedString mapped = text.empty_copy();
    mapped.reserve(2 * text.text().size());
    append_byte_level(mapped, text, 0, text.text().size());
    text = std::move(mapped);
  }
};

}  // namespace

Pattern read_pattern(const JsonFields& fields) {
  const JsonFields pattern = fields.object("pattern");
  if (pattern.has("String")) {
    return Pattern::literal(pattern.string("String"));
  }
  if (pattern.has("Regex")) {
    const std::string where = "file " + fields.source() + ": field " + pattern.path() + ".Regex";
    return Pattern::regex(Regex(pattern.string("Regex"), where));
  }
  fields.refuse("pattern", "{\"String\": ..} or {\"Regex\": ..}", "neither");
}

std::unique_ptr<const Normalizer> make_normalizer(const JsonFields& fields) {
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    return std::make_unique<SequenceNormalizer>(fields);
  }
  if (type == "Prepend") {
    return std::make_unique<Prepend>(fields);
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceNormalizer>(fields);
  }
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(fields);
  }
  if (type == "StripAccents") {
    return std::make_unique<StripAccents>();
  }
  if (type == "Lowercase") {
    return std::make_unique<Lowercase>();
  }
  if (type == "Nmt") {
    return std::make_unique<Nmt>();
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelNormalizer>();
  }
  if (type == "Precompiled") {
    return make_precompiled_normalizer(fields);
  }
  if (type == "NFC") {
    return make_unicode_normalizer(NormalForm::NFC);
  }
  if (type == "NFD") {
    return make_unicode_normalizer(NormalForm::NFD);
  }
  if (type == "NFKC") {
    return make_unicode_normalizer(NormalForm::NFKC);
  }
  if (type == "NFKD") {
    return make_unicode_normalizer(NormalForm::NFKD);
  }
  fields.refuse("type",
                "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Nmt, "
                "Precompiled, ByteLevel or Sequence",
                "\"" + type + "\"");
}

}  // namespace reprise::text
