// The pre-tokenizers. All split pieces; ByteLevel and Metaspace also rewrite them.
#include "text/tokenizer/pre_tokenizer.h"

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/normalizer.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

#include <utility>

namespace reprise::text {
namespace {

SplitBehavior read_behavior(const JsonFields& fields) {
  const std::string name = fields.string("behavior");
  if (name == "Removed") {
    return SplitBehavior::Removed;
  }
  if (name == "Isolated") {
    return SplitBehavior::Isolated;
  }
  if (name == "MergedWithPrevious") {
    return SplitBehavior::MergedWithPrevious;
  }
  if (name == "MergedWithNext") {
    return SplitBehavior::MergedWithNext;
  }
  if (name == "Contiguous") {
    return SplitBehavior::Contiguous;
  }
  fields.refuse("behavior",
                "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                "\"" + name + "\"");
}

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const JsonFields& fields) {
    for (const JsonFields& part : fields.objects("pretokenizers")) {
      parts_.push_back(make_pre_tokenizer(part));
    }
  }
  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    for (const auto& part : parts_) {
      part->add_steps(steps);
    }
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

class Split final : public PreTokenizer {
 public:
  explicit Split(const JsonFields& fields)
      : pattern_(read_pattern(fields)),
        behavior_(read_behavior(fields)),
        invert_(fields.boolean("invert")) {}
  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    steps.push_back({[this](PreTokenized& text, const PieceGroups& groups) {
      return text.split([this](std::string_view piece,
                               const VisitRange& visit) { pattern_.for_each(piece, visit); },
                        behavior_,
                        groups,
                        invert_);
    }});
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Digits, Punctuation, WhitespaceSplit and CharDelimiterSplit: splits by a predicate on
/// characters.
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(std::function<bool(char32_t)> fits, SplitBehavior behavior)
      : fits_(std::move(fits)), behavior_(behavior) {}
  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    steps.push_back({[this](PreTokenized& text, const PieceGroups& groups) {
      return text.split_characters(fits_, behavior_, groups);
    }});
  }

 private:
  std::function<bool(char32_t)> fits_;
  SplitBehavior behavior_;
};

class BertPreTokenizer final : public PreTokenizer {
 public:
  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    steps.push_back({[](PreTokenized& text, const PieceGroups& groups) {
      return text.split_characters(is_white_space, SplitBehavior::Removed, groups);
    }});
    steps.push_back({[](PreTokenized& text, const PieceGroups& groups) {
      return text.split_characters(is_punctuation, SplitBehavior::Isolated, groups);
    }});
  }
};

/// Keeps runs of word characters, and runs of neither word characters nor spaces: \w+|[^\w\s]+
class Whitespace final : public PreTokenizer {
 public:
  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    steps.push_back({split_words});
  }

 private:
  static bool split_words(PreTokenized& text, const PieceGroups& groups) {
    return text.split(
        [](std::string_view piece, const VisitRange& visit) {
          enum class Kind { Space, Word, Other };
          Kind last = Kind::Space;
          size_t run = 0;
          const auto end_run = [&](size_t end) {
            if (last != Kind::Space) {
              visit(run, end);
            }
          };
          for (size_t at = 0; at < piece.size();) {
            const size_t begin = at;
            const char32_t c = next_code_point(piece, at);
            const Kind kind = is_white_space(c)      ? Kind::Space
                              : is_word_character(c) ? Kind::Word
                                                     : Kind::Other;
            if (kind != last) {
              end_run(begin);
              run = begin;
              last = kind;
            }
          }
          end_run(piece.size());
        },
        SplitBehavior::Removed,
        groups,
        /*invert=*/true);
  }
};

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const JsonFields& fields)
      : add_prefix_space_(fields.boolean("add_prefix_space")),
        use_regex_(fields.boolean("use_regex", true)) {}

  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    if (add_prefix_space_) {
      steps.push_back({add_prefix_space});
    }
    if (use_regex_) {
      steps.push_back({[](PreTokenized& text, const PieceGroups& groups) {
        return text.split([](std::string_view piece,
                             const VisitRange& visit) { gpt2_regex().for_each(piece, visit); },
                          SplitBehavior::Isolated,
                          groups);
      }});
    }
    steps.push_back({[](PreTokenized& text, const PieceGroups& groups) {
      return text.rewrite(
          [&](NormalizedString& to, const Piece& piece) {
            append_byte_level(to, text.text, piece.begin, piece.end);
          },
          groups);
    }});
  }

 private:
  static bool add_prefix_space(PreTokenized& text, const PieceGroups& groups) {
    return text.rewrite(
        [&](NormalizedString& to, const Piece& piece) {
          if (!text.view(piece).starts_with(' ')) {
            size_t first = piece.begin;
            next_code_point(text.text.text(), first);
            const auto [begin, end] = text.text.origin(piece.begin, first);
            to.append(" ", {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
          }
          to.append(text.text, piece.begin, piece.end);
        },
        groups);
  }

  bool add_prefix_space_, use_regex_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const JsonFields& fields)
      : mark_(fields.character("replacement")),
        scheme_(read_prepend_scheme(fields)),
        split_(fields.boolean("split", true)) {
    append_utf8(mark_text_, mark_);
  }

  void add_steps(std::vector<PreTokenizerStep>& steps) const override {
    steps.push_back(
        {[this](PreTokenized& text, const PieceGroups& groups) {
           return text.rewrite(
               [&](NormalizedString& to, const Piece& piece) { write(to, text, piece); }, groups);
         },
         scheme_ == PrependScheme::First});
    if (split_) {
      steps.push_back({[this](PreTokenized& text, const PieceGroups& groups) {
        return text.split_characters(
            [this](char32_t c) { return c == mark_; }, SplitBehavior::MergedWithNext, groups);
      }});
    }
  }

 private:
  void write(NormalizedString& to, const PreTokenized& from, const Piece& piece) const {
    const std::string_view text = from.text.text();
    const auto origin_at = [&](size_t at) {
      const auto [begin, end] = from.text.origin(at, at + utf8_length(text[at]));
      return Origin{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
    };
    const std::string_view inside = from.view(piece);
    const bool has_mark = inside.starts_with(' ') || inside.starts_with(mark_text_);
    const bool wants_mark = scheme_ == PrependScheme::Always ||
                            (scheme_ == PrependScheme::First && origin_at(piece.begin).begin == 0);
    if (wants_mark && !has_mark) {
      to.append(mark_text_, origin_at(piece.begin));
    }
    for (size_t at = piece.begin; at < piece.end;) {
      const size_t space = std::min(text.find(' ', at), piece.end);
      to.append(from.text, at, space);
      if (space < piece.end) {
        to.append(mark_text_, origin_at(space));
      }
      at = space + 1;
    }
  }

  char32_t mark_;
  PrependScheme scheme_;
  bool split_;
  std::string mark_text_;
};

}  // namespace

const Regex& gpt2_regex() {
  static const Regex regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      "the expression of ByteLevel");
  return regex;
}

PrependScheme read_prepend_scheme(const JsonFields& fields) {
  const std::string name = fields.optional_string("prepend_scheme").value_or("always");
  // Old files only have add_prefix_space.
  if (!fields.boolean("add_prefix_space", true)) {
    return PrependScheme::Never;
  }
  if (name == "always") {
    return PrependScheme::Always;
  }
  if (name == "first") {
    return PrependScheme::First;
  }
  if (name == "never") {
    return PrependScheme::Never;
  }
  fields.refuse("prepend_scheme", "always, first or never", "\"" + name + "\"");
}

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonFields& fields) {
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    return std::make_unique<SequencePreTokenizer>(fields);
  }
  if (type == "Split") {
    return std::make_unique<Split>(fields);
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelPreTokenizer>(fields);
  }
  if (type == "Metaspace") {
    return std::make_unique<Metaspace>(fields);
  }
  if (type == "Digits") {
    const bool individual = fields.boolean("individual_digits");
    return std::make_unique<CharacterSplit>(
        is_number, individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
  }
  if (type == "Punctuation") {
    const auto behavior = fields.has("behavior") ? read_behavior(fields) : SplitBehavior::Isolated;
    return std::make_unique<CharacterSplit>(is_punctuation, behavior);
  }
  if (type == "Whitespace") {
    return std::make_unique<Whitespace>();
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<CharacterSplit>(is_white_space, SplitBehavior::Removed);
  }
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = fields.character("delimiter");
    return std::make_unique<CharacterSplit>([delimiter](char32_t c) { return c == delimiter; },
                                            SplitBehavior::Removed);
  }
  if (type == "BertPreTokenizer") {
    return std::make_unique<BertPreTokenizer>();
  }
  fields.refuse("type",
                "Split, ByteLevel, Digits, Metaspace, Whitespace, WhitespaceSplit, Punctuation, "
                "CharDelimiterSplit, BertPreTokenizer or Sequence",
                "\"" + type + "\"");
}

}  // namespace reprise::text
