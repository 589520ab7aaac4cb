// The decoders. Each behaves like its namesake in Hugging Face's library, including its quirks.
#include "text/tokenizer/decoder.h"

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/utf8.h"

#include <charconv>
#include <limits>
#include <utility>

namespace reprise::text {
namespace {

size_t total_size(const std::vector<std::string>& tokens) {
  size_t size = 0;
  for (const std::string& token : tokens) {
    size += token.size();
  }
  return size;
}

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(const JsonFields& fields) {
    for (const JsonFields& part : fields.objects("decoders")) {
      parts_.push_back(make_decoder(part));
    }
  }
  void rewrite(std::vector<std::string>& tokens, size_t original) const override {
    for (const auto& part : parts_) {
      part->rewrite(tokens, original);
      check_growth(original, total_size(tokens));
    }
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

class ByteLevelDecoder final : public Decoder {
 public:
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      const size_t before = bytes.size();
      for (const char32_t c : code_points(token)) {
        const auto byte = byte_of(c);
        if (!byte) {  // an added token is not in the byte alphabet
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += *byte;
      }
    }
    tokens = {replace_invalid_utf8(bytes)};
  }
};

/// Runs of <0x0A> tokens become text if their bytes are UTF-8, else each becomes U+FFFD.
class ByteFallback final : public Decoder {
 public:
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    std::vector<std::string> result;
    result.reserve(tokens.size());
    std::string bytes;
    const auto flush = [&]() {
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        if (!bytes.empty()) {
          result.push_back(bytes);
        }
      } else {
        result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = parse(token)) {
        bytes += *byte;
      } else {
        flush();
        result.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(result);
  }

 private:
  static std::optional<char> parse(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) {
      return std::nullopt;
    }
    unsigned value = 0;
    const char* end = token.data() + 5;
    const auto [stop, error] = std::from_chars(token.data() + 3, end, value, 16);
    return error == std::errc() && stop == end ? std::optional(static_cast<char>(value))
                                               : std::nullopt;
  }
};

class Fuse final : public Decoder {
 public:
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    std::string joined;
    for (const std::string& token : tokens) {
      joined += token;
    }
    tokens = {std::move(joined)};
  }
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(const JsonFields& fields)
      : pattern_(read_pattern(fields)), content_(fields.string("content")) {}
  void rewrite(std::vector<std::string>& tokens, size_t original) const override {
    size_t written = 0;
    for (std::string& token : tokens) {
      std::string result;
      size_t done = 0;
      const Ranges matches = token.empty() ? Ranges() : pattern_.find_all(token);
      written += token.size() + matches.size() * content_.size();
      check_growth(original, written);
      for (const auto& [begin, end] : matches) {
        result.append(token, done, begin - done).append(content_);
        done = end;
      }
      result.append(token, done);
      token = std::move(result);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

/// Removes up to `start` and `stop` copies of a character from the ends of each token.
class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const JsonFields& fields)
      : content_(fields.character("content")),
        start_(static_cast<size_t>(fields.integer("start", 0, kMost))),
        stop_(static_cast<size_t>(fields.integer("stop", 0, kMost))) {}
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    for (std::string& token : tokens) {
      const std::u32string characters = code_points(token);
      size_t first = 0;
      size_t last = characters.size();
      while (first < std::min(start_, characters.size()) && characters[first] == content_) {
        ++first;
      }
      while (last > first && characters.size() - last < stop_ && characters[last - 1] == content_) {
        --last;
      }
      token.clear();
      for (size_t i = first; i < last; ++i) {
        append_utf8(token, characters[i]);
      }
    }
  }

 private:
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  char32_t content_;
  size_t start_, stop_;
};

/// Marks become spaces; in the first token they are removed, if a mark was prepended to the text.
class Metaspace final : public Decoder {
 public:
  explicit Metaspace(const JsonFields& fields)
      : mark_(fields.character("replacement")), scheme_(read_prepend_scheme(fields)) {}
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string result;
      for (const char32_t c : code_points(tokens[i])) {
        if (c != mark_) {
          append_utf8(result, c);
        } else if (i > 0 || scheme_ == PrependScheme::Never) {
          result += ' ';
        }
      }
      tokens[i] = std::move(result);
    }
  }

 private:
  char32_t mark_;
  PrependScheme scheme_;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {
    return;
  }
  std::string result;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    result.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = result.append(text, done);
}

class WordPiece final : public Decoder {
 public:
  explicit WordPiece(const JsonFields& fields)
      : prefix_(fields.string("prefix")), clean_up_(fields.boolean("cleanup")) {}
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_)) {
        token.erase(0, prefix_.size());
      } else if (i > 0) {
        token.insert(token.begin(), ' ');
      }
      if (clean_up_) {
        clean_up(token);
      }
    }
  }

 private:
  static void clean_up(std::string& text) {
    constexpr std::pair<const char*, const char*> kTighter[] = {{" .", "."},
                                                                {" ?", "?"},
                                                                {" !", "!"},
                                                                {" ,", ","},
                                                                {" ' ", "'"},
                                                                {" n't", "n't"},
                                                                {" 'm", "'m"},
                                                                {" do not", " don't"},
                                                                {" 's", "'s"},
                                                                {" 've", "'ve"},
                                                                {" 're", "'re"}};
    for (const auto& [from, to] : kTighter) {
      replace_all(text, from, to);
    }
  }

  std::string prefix_;
  bool clean_up_;
};

/// The end-of-word suffix becomes a space, or nothing in the last token.
class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(const JsonFields& fields) : suffix_(fields.string("suffix")) {}
  void rewrite(std::vector<std::string>& tokens, size_t /*original*/) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

}  // namespace

void Decoder::apply(std::vector<std::string>& tokens) const {
  rewrite(tokens, total_size(tokens));
}

std::unique_ptr<const Decoder> make_decoder(const JsonFields& fields) {
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    return std::make_unique<SequenceDecoder>(fields);
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "ByteFallback") {
    return std::make_unique<ByteFallback>();
  }
  if (type == "Fuse") {
    return std::make_unique<Fuse>();
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(fields);
  }
  if (type == "Strip") {
    return std::make_unique<StripDecoder>(fields);
  }
  if (type == "Metaspace") {
    return std::make_unique<Metaspace>(fields);
  }
  if (type == "WordPiece") {
    return std::make_unique<WordPiece>(fields);
  }
  if (type == "BPEDecoder") {
    return std::make_unique<BpeDecoder>(fields);
  }
  fields.refuse("type",
                "ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder "
                "or Sequence",
                "\"" + type + "\"");
}

}  // namespace reprise::text
