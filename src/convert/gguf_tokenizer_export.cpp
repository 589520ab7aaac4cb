// What llama.cpp reads: tokens, their kinds, and merges or scores. Everything else about a
// tokenizer is a name (gguf_pipelines.h), so that one which is not known cannot be exported.
#include "convert/gguf_pipelines.h"
#include "convert/gguf_tokenizer.h"
#include "convert/gguf_vocabulary.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/tokenizer_config.h"

#include <reprise/io/file.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace reprise::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSpaceMark = "\u2581";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

bool is_byte_token(std::string_view token) {
  constexpr size_t kLength = 6;
  return token.size() == kLength && token.starts_with("<0x") && token.ends_with('>') &&
         token.find_first_not_of("0123456789ABCDEFabcdef", 3) == kLength - 1;
}

/// llama.cpp takes these for control tokens, whatever the tokenizer says.
bool looks_special(std::string_view token) {
  const auto is_between = [&](std::string_view begin, std::string_view end) {
    return token.starts_with(begin) && token.ends_with(end);
  };
  return token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]" ||
         is_between("<|", "|>") || is_between("<\uFF5C", "\uFF5C>") || is_between("<unused", ">");
}

class TokenizerExport {
 public:
  TokenizerExport(const fs::path& folder, int64_t vocabulary, std::vector<std::string>& warnings)
      : folder_(folder),
        tokenizer_(Tokenizer::open(folder)),
        files_(text::read_tokenizer_files(folder)),
        warnings_(warnings) {
    if (fs::exists(folder / "tokenizer.json")) {
      json_ = read_json(folder / "tokenizer.json");
    }
    TORCH_CHECK(tokenizer_->size() <= vocabulary,
                "[gguf] ",
                folder.string(),
                ": the tokenizer has ids up to ",
                tokenizer_->size() - 1,
                ", config.json a vocabulary of ",
                vocabulary);
    find_added();
    read_tokens(vocabulary);
  }

  io::GgufValues run() {
    const bool is_byte_level = !json_.is_null() && !flag("byte_fallback");
    put("model", std::string(is_byte_level ? "gpt2" : "llama"));
    put("pre", is_byte_level ? byte_level_name() : std::string("default"));
    put("tokens", vocabulary_.tokens);
    if (is_byte_level) {
      put_kinds();
      put("merges", merge_lines());
    } else {
      const std::vector<double> scores = sentencepiece_scores();
      put("scores", std::vector<float>(scores.begin(), scores.end()));
      put_kinds();
      put("add_space_prefix", prepends_space());
    }
    put_special_tokens();
    return std::move(values_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    TORCH_CHECK(false, "[gguf] ", folder_.string(), ": tokenizer.json: ", what);
  }

  template <class T>
  void put(const std::string& key, T value) {
    values_.emplace_back("tokenizer.ggml." + key, std::move(value));
  }

  const Json& model() const {
    const auto found = json_.find("model");
    if (found == json_.end() || !found->is_object()) {
      refuse("expected an object \"model\"");
    }
    return *found;
  }

  bool flag(const char* name) const {
    const auto found = model().find(name);
    return found != model().end() && found->is_boolean() && found->get<bool>();
  }

  void add(const Json& id) {
    if (id.is_number_unsigned()) {
      added_.insert(id.get<int64_t>());
    }
  }

  /// Tokens that are found in a text before anything else.
  void find_added() {
    if (const auto list = json_.is_null() ? Json() : json_.value("added_tokens", Json());
        list.is_array()) {
      for (const Json& token : list) {
        add(token.is_object() ? token.value("id", Json()) : Json());
      }
    }
    if (files_.config.is_object() && files_.config.contains("added_tokens_decoder")) {
      for (const auto& [text, token] : files_.config["added_tokens_decoder"].items()) {
        int64_t id = -1;
        std::from_chars(text.data(), text.data() + text.size(), id);
        added_.insert(id);
      }
    }
    if (files_.added_tokens.is_object()) {
      for (const auto& [text, id] : files_.added_tokens.items()) {
        add(id);
      }
    }
    for (int64_t id = 0; id < tokenizer_->size(); ++id) {
      if (tokenizer_->is_special(id)) {
        added_.insert(id);
      }
    }
  }

  void read_tokens(int64_t vocabulary) {
    for (int64_t id = 0; id < vocabulary; ++id) {
      auto token = tokenizer_->token_of(id);
      TokenKind kind = TokenKind::Normal;
      if (!token) {
        token = "[PAD" + std::to_string(id) + "]";
        kind = TokenKind::Unused;
      } else if (added_.contains(id)) {
        const bool is_control = tokenizer_->is_special(id) || looks_special(*token);
        kind = is_control ? TokenKind::Control : TokenKind::UserDefined;
        token = is_control ? *token : replaced(*token, kSpaceMark, " ");
      } else if (is_byte_token(*token)) {
        kind = TokenKind::Byte;
      }
      vocabulary_.tokens.push_back(*std::move(token));
      vocabulary_.kinds.push_back(kind);
    }
  }

  void put_kinds() {
    std::vector<int32_t> kinds;
    kinds.reserve(vocabulary_.kinds.size());
    for (const TokenKind kind : vocabulary_.kinds) {
      kinds.push_back(static_cast<int32_t>(kind));
    }
    put("token_type", std::move(kinds));
  }

  void check_bpe() const {
    if (model().value("type", Json()) != "BPE") {
      refuse("model.type: expected \"BPE\", found " + model().value("type", Json()).dump() +
             ", which llama.cpp has for no language model");
    }
    for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json value = model().value(name, Json());
      const bool is_off = value.is_string() ? value.get_ref<const std::string&>().empty()
                                            : value.is_null() || value == 0;
      if (!is_off) {
        refuse(std::string("model.") + name + ": llama.cpp has no such thing; found " +
               value.dump());
      }
    }
  }

  std::string byte_level_name() {
    check_bpe();
    const Json normalizer = json_.value("normalizer", Json());
    const bool composes = normalizer.is_object() && normalizer.value("type", Json()) == "NFC";
    if (composes) {
      warnings_.emplace_back("llama.cpp does not compose characters (NFC), as this tokenizer does");
    } else if (!normalizer.is_null()) {
      refuse("normalizer: expected none or NFC, found " + normalizer.dump());
    }
    const Json pre_tokenizer = json_.value("pre_tokenizer", Json());
    const auto name = pipeline_name(pre_tokenizer, flag("ignore_merges"), composes);
    if (!name) {
      refuse("pre_tokenizer: expected one that llama.cpp knows as " + pipeline_names() +
             ", found " + pre_tokenizer.dump() +
             (flag("ignore_merges") ? " with ignore_merges" : ""));
    }
    return *name;
  }

  Merges merges() const {
    Merges merges;
    const Json list = model().value("merges", Json());
    for (const Json& merge : list.is_array() ? list : Json::array()) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      } else if (merge.is_string() &&
                 merge.get_ref<const std::string&>().find(' ') != std::string::npos) {
        const auto& line = merge.get_ref<const std::string&>();
        const size_t space = line.find(' ');
        merges.emplace_back(line.substr(0, space), line.substr(space + 1));
      } else {
        refuse("model.merges: expected pairs of tokens");
      }
    }
    return merges;
  }

  std::vector<std::string> merge_lines() const {
    std::vector<std::string> lines;
    for (const auto& [left, right] : merges()) {
      lines.push_back(replaced(left, " ", "\u0120") + " " + replaced(right, " ", "\u0120"));
    }
    return lines;
  }

  /// Those of tokenizer.model, if it is there and is the same vocabulary; else by the merges.
  std::vector<double> sentencepiece_scores() const {
    const fs::path path = folder_ / "tokenizer.model";
    std::optional<std::vector<double>> scores;
    if (fs::exists(path)) {
      scores = scores_of(text::read_sentencepiece_model(read_file(path), path.string()));
    }
    if (!json_.is_null()) {
      check_bpe();
      check_sentencepiece_steps();
    }
    TORCH_CHECK(
        scores || !json_.is_null(),
        "[gguf] ",
        path.string(),
        ": expected a model of type bpe with the pieces of the tokenizer: llama.cpp reads no "
        "other");
    return scores ? *std::move(scores)
                  : scores_of_merges(
                        vocabulary_, merges(), "[gguf] " + folder_.string() + ": tokenizer.json: ");
  }

  std::optional<std::vector<double>> scores_of(const text::SentencePieceModel& model) const {
    if (!model.is_bpe || model.pieces.size() > vocabulary_.tokens.size()) {
      return std::nullopt;
    }
    std::vector<double> scores(vocabulary_.tokens.size(), kAddedScore);
    for (size_t id = 0; id < model.pieces.size(); ++id) {
      if (vocabulary_.kinds[id] == TokenKind::Normal &&
          vocabulary_.tokens[id] != model.pieces[id].text) {
        return std::nullopt;
      }
      const bool is_added = added_.contains(static_cast<int64_t>(id));
      scores[id] = is_added ? kAddedScore : model.pieces[id].score;
    }
    return scores;
  }

  /// Steps that only turn spaces into marks, as llama.cpp does.
  void check_sentencepiece_steps() const {
    const std::string normalizer = json_.value("normalizer", Json()).dump();
    const Json steps = json_.value("normalizer", Json());
    const auto is_known = [](const Json& step) {
      const std::string type = step.is_object() ? step.value("type", "") : "";
      return type == "Prepend" || type == "Replace";
    };
    const bool is_sequence = steps.is_object() && steps.value("type", Json()) == "Sequence" &&
                             steps.value("normalizers", Json()).is_array();
    const Json list = is_sequence       ? steps["normalizers"]
                      : steps.is_null() ? Json::array()
                                        : Json::array({steps});
    if (!std::all_of(list.begin(), list.end(), is_known)) {
      refuse("normalizer: expected Prepend and Replace of spaces alone, found " + normalizer);
    }
    const Json splits = json_.value("pre_tokenizer", Json());
    const std::string type = splits.is_object() ? splits.value("type", "") : "";
    if (!splits.is_null() && type != "Metaspace" && type != "Split") {
      refuse("pre_tokenizer: expected none, Metaspace or a Split at spaces, found " +
             splits.dump());
    }
  }

  bool prepends_space() const {
    const TokenIds ids = tokenizer_->encode("a", {.add_special_tokens = false}).ids;
    return !ids.empty() && tokenizer_->token_of(ids.front()).value_or("").starts_with(kSpaceMark);
  }

  void put_id(const char* key, std::optional<int64_t> id) {
    if (id) {
      put(key, static_cast<uint32_t>(*id));
    }
  }

  /// The token that ends a turn, which generation_config.json lists besides the end of a text.
  std::optional<int64_t> turn_end() const {
    const fs::path path = folder_ / "generation_config.json";
    if (!fs::exists(path)) {
      return std::nullopt;
    }
    const Json file = read_json(path);
    const Json ends = file.is_object() ? file.value("eos_token_id", Json()) : Json();
    for (const Json& id : ends.is_array() ? ends : Json::array()) {
      if (id.is_number_unsigned() && id.get<int64_t>() < tokenizer_->size() &&
          id.get<int64_t>() != tokenizer_->special_tokens().eos) {
        return id.get<int64_t>();
      }
    }
    return std::nullopt;
  }

  /// The token that is put before or after every text, if one is.
  struct Around {
    std::optional<int64_t> before, after;
    size_t count = 0;
  };

  Around around_texts() const {
    const TokenIds whole = tokenizer_->encode("a").ids;
    const TokenIds plain = tokenizer_->encode("a", {.add_special_tokens = false}).ids;
    const auto start = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
    if (start == whole.end()) {
      return {};
    }
    const auto end = start + static_cast<std::ptrdiff_t>(plain.size());
    Around around;
    around.count = whole.size() - plain.size();
    if (start != whole.begin()) {
      around.before = whole.front();
    }
    if (end != whole.end()) {
      around.after = whole.back();
    }
    return around;
  }

  void put_special_tokens() {
    const SpecialTokens& special = tokenizer_->special_tokens();
    const Around around = around_texts();
    const auto bos = special.bos ? special.bos : around.before;
    const auto eos = special.eos ? special.eos : around.after;
    if (around.count > (around.before ? 1U : 0U) + (around.after ? 1U : 0U)) {
      warnings_.emplace_back(
          "llama.cpp puts at most one token before and after a text; this tokenizer puts " +
          std::to_string(around.count));
    }
    put_id("bos_token_id", bos);
    put_id("eos_token_id", eos);
    put_id("unknown_token_id", special.unk);
    put_id("padding_token_id", special.pad);
    put_id("eot_token_id", turn_end());
    put("add_bos_token", around.before.has_value() && around.before == bos);
    put("add_eos_token", around.after.has_value() && around.after == eos);
    const auto templates = text::read_tokenizer_config(files_).templates;
    if (const auto found = templates.find("default"); found != templates.end()) {
      values_.emplace_back("tokenizer.chat_template", found->second.text);
    }
    if (templates.size() > 1) {
      warnings_.emplace_back("only the default chat template is exported");
    }
  }

  fs::path folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  text::TokenizerFiles files_;
  Json json_;  // tokenizer.json, if there is one
  std::vector<std::string>& warnings_;
  std::set<int64_t> added_;
  GgufVocabulary vocabulary_;
  io::GgufValues values_;
};

}  // namespace

io::GgufValues exported_tokenizer(const fs::path& folder,
                                  int64_t vocabulary,
                                  std::vector<std::string>& warnings) {
  if (!fs::exists(folder / "tokenizer.json") && !fs::exists(folder / "tokenizer.model")) {
    warnings.push_back(folder.string() +
                       ": has no tokenizer: the file can be used with token ids alone");
    return {{"tokenizer.ggml.model", "none"}};
  }
  return TokenizerExport(folder, vocabulary, warnings).run();
}

}  // namespace reprise::convert
