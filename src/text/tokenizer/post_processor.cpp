// The post-processors.
#include "text/tokenizer/post_processor.h"

#include "text/models/vocabulary.h"
#include "text/tokenizer/normalized_string.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

#include <algorithm>

namespace reprise::text {
namespace {

/// Trims the spaces of a token (Ġ in the byte alphabet, or plain spaces) from its offsets. The
/// space that add_prefix_space put before the text is not in the original, so it is not trimmed.
class OffsetTrimmer {
 public:
  OffsetTrimmer(bool trim, bool add_prefix_space)
      : trim_(trim), add_prefix_space_(add_prefix_space) {}

  void apply(std::vector<EncodedToken>& tokens, std::string_view original) const {
    for (size_t i = 0; trim_ && i < tokens.size(); ++i) {
      const std::u32string text = code_points(tokens[i].text);
      auto& [begin, end] = tokens[i].offsets;
      const auto left = std::find_if_not(text.begin(), text.end(), is_space) - text.begin();
      const auto right = std::find_if_not(text.rbegin(), text.rend(), is_space) - text.rbegin();
      const bool is_prefix = (i == 0 || begin == 0) && add_prefix_space_ && left == 1;
      for (auto n = is_prefix ? 0 : left; n > 0 && begin < end; --n) {
        next_code_point(original, begin);
      }
      for (auto n = right; n > 0 && begin < end; --n) {
        previous_code_point(original, end);
      }
    }
  }

 private:
  static bool is_space(char32_t c) {
    constexpr char32_t kByteLevelSpace = 0x120;
    return c == kByteLevelSpace || is_white_space(c);
  }

  bool trim_, add_prefix_space_;
};

class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(const JsonFields& fields) {
    for (const JsonFields& part : fields.objects("processors")) {
      parts_.push_back(make_post_processor(part));
    }
  }
  void apply(std::vector<EncodedToken>& tokens,
             std::string_view original,
             bool add_special_tokens) const override {
    for (const auto& part : parts_) {
      part->apply(tokens, original, add_special_tokens);
    }
  }
  size_t added_tokens() const override {
    size_t sum = 0;
    for (const auto& part : parts_) {
      sum += part->added_tokens();
    }
    return sum;
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

class ByteLevelPostProcessor final : public PostProcessor {
 public:
  explicit ByteLevelPostProcessor(const JsonFields& fields)
      : trimmer_(fields.boolean("trim_offsets"), fields.boolean("add_prefix_space")) {}
  void apply(std::vector<EncodedToken>& tokens,
             std::string_view original,
             bool /*add_special_tokens*/) const override {
    trimmer_.apply(tokens, original);
  }
  size_t added_tokens() const override { return 0; }

 private:
  OffsetTrimmer trimmer_;
};

/// Adds ids before and after the text: TemplateProcessing, BertProcessing and RobertaProcessing.
class Template final : public PostProcessor {
 public:
  /// std::nullopt is the text.
  using Part = std::optional<EncodedToken>;
  explicit Template(std::vector<Part> parts, OffsetTrimmer trimmer = {false, false})
      : parts_(std::move(parts)), trimmer_(trimmer) {}

  void apply(std::vector<EncodedToken>& tokens,
             std::string_view original,
             bool add_special_tokens) const override {
    trimmer_.apply(tokens, original);
    std::vector<EncodedToken> result;
    result.reserve(tokens.size() + parts_.size());
    for (const Part& part : parts_) {
      if (!part) {
        result.insert(result.end(), tokens.begin(), tokens.end());
      } else if (add_special_tokens) {
        result.push_back(*part);
      }
    }
    tokens = std::move(result);
  }
  size_t added_tokens() const override {
    return static_cast<size_t>(
        std::count_if(parts_.begin(), parts_.end(), [](const Part& p) { return p.has_value(); }));
  }

 private:
  std::vector<Part> parts_;
  OffsetTrimmer trimmer_;
};

EncodedToken special(int64_t id) {
  return {id, {0, 0}, {}};
}

/// The ids of one entry of "special_tokens".
std::vector<int64_t> read_ids(const JsonFields& token) {
  std::vector<int64_t> ids;
  for (const Json& id : token.array("ids")) {
    const bool fits =
        id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{Vocabulary::kLargestId};
    if (!fits) {
      token.refuse("ids", "ids from 0 to " + std::to_string(Vocabulary::kLargestId), describe(id));
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::unique_ptr<const PostProcessor> make_template(const JsonFields& fields) {
  std::vector<Template::Part> parts;
  for (const JsonFields& piece : fields.objects("single")) {
    if (piece.has("Sequence")) {
      const std::string id = piece.object("Sequence").string("id");
      if (id != "A") {
        piece.refuse("Sequence.id", "\"A\" in the template for one text", "\"" + id + "\"");
      }
      parts.emplace_back(std::nullopt);
    } else if (piece.has("SpecialToken")) {
      const std::string name = piece.object("SpecialToken").string("id");
      for (const int64_t id : read_ids(fields.object("special_tokens").object(name))) {
        parts.emplace_back(special(id));
      }
    } else {
      fields.refuse("single", "pieces that are Sequence or SpecialToken", "another");
    }
  }
  // With two of them, a Sequence of processors would double the text each time.
  const auto texts = std::count_if(
      parts.begin(), parts.end(), [](const Template::Part& part) { return !part.has_value(); });
  if (texts != 1) {
    fields.refuse("single", "one Sequence", std::to_string(texts));
  }
  return std::make_unique<Template>(std::move(parts));
}

/// ["[CLS]", 101]
int64_t read_token_pair(const JsonFields& fields, const char* key) {
  const Json& pair = fields.array(key);
  const bool fits = pair.size() == 2 && pair[1].is_number_unsigned() &&
                    pair[1].get<uint64_t>() <= uint64_t{Vocabulary::kLargestId};
  if (!fits) {
    fields.refuse(key, "[\"token\", id]", describe(pair));
  }
  return pair[1].get<int64_t>();
}

}  // namespace

std::unique_ptr<const PostProcessor> make_post_processor(const JsonFields& fields) {
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    return std::make_unique<SequencePostProcessor>(fields);
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelPostProcessor>(fields);
  }
  if (type == "TemplateProcessing") {
    return make_template(fields);
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    std::vector<Template::Part> parts = {special(read_token_pair(fields, "cls")),
                                         std::nullopt,
                                         special(read_token_pair(fields, "sep"))};
    const bool roberta = type == "RobertaProcessing";
    const OffsetTrimmer trimmer(roberta && fields.boolean("trim_offsets"),
                                roberta && fields.boolean("add_prefix_space"));
    return std::make_unique<Template>(std::move(parts), trimmer);
  }
  fields.refuse("type",
                "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing or Sequence",
                "\"" + type + "\"");
}

}  // namespace reprise::text
