// Added tokens are found first; libsentencepiece encodes the text between them and gives ids and
// offsets.
#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer/decoder.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <sentencepiece_processor.h>

#include <algorithm>

namespace sentencepiece::logging {
// Declared in a header that the library does not install.
void SetMinLogLevel(int level);
}  // namespace sentencepiece::logging

namespace reprise::text {
namespace {

using sentencepiece::SentencePieceProcessor;

void load(SentencePieceProcessor& processor, const std::string& model, const std::string& source) {
  constexpr int kFatal = 3;
  sentencepiece::logging::SetMinLogLevel(kFatal);  // errors are returned as a status
  const auto status = processor.LoadFromSerializedProto(model);
  TORCH_CHECK(status.ok(),
              "[tokenizer] file ",
              source,
              ": libsentencepiece cannot load it: ",
              status.ToString());
}

/// Decodes like Llama's tokenizer.json: marks to spaces, <0x..> to bytes, and without the leading
/// space if the model adds one.
std::unique_ptr<const Decoder> make_sentencepiece_decoder(bool strip_first) {
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (strip_first) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  const Json sequence = {{"type", "Sequence"}, {"decoders", decoders}};
  return make_decoder(JsonFields(sequence, "tokenizer.model", "decoder"));
}

/// Splits the text at added tokens and encodes each part between them separately: the "legacy" rule
/// of transformers 4, unless configured otherwise (DummyPrefix). transformers 5 converts the model
/// to a tokenizer.json first, whose results may differ next to added tokens.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& bytes,
                         const std::string& source,
                         const SentencePieceSettings& settings);

  Encoding encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens) const override;
  int64_t size() const override { return size_; }
  std::optional<int64_t> id_of(std::string_view token) const override;
  std::optional<std::string> token_of(int64_t id) const override;
  bool is_special(int64_t id) const override;

 private:
  void add_tokens(const std::vector<AddedIds>& added);
  int64_t resolve(int64_t id) const;
  std::vector<int64_t> resolve(const std::vector<SurroundingToken>& tokens) const;
  void encode_part(std::string_view part, size_t base, bool prefix, Encoding& encoding) const;

  SentencePieceModel model_;
  SentencePieceProcessor with_prefix_, without_prefix_;
  DummyPrefix dummy_prefix_;
  AddedTokens added_;
  std::map<int64_t, std::vector<int64_t>> expansions_;  // by id in added_
  Vocabulary names_;                                    // pieces and added tokens
  std::vector<int64_t> special_;                        // sorted
  std::vector<int64_t> prefix_, suffix_;
  std::unique_ptr<const Decoder> decoder_;
  int64_t size_ = 0;
};

SentencePieceTokenizer::SentencePieceTokenizer(const std::string& bytes,
                                               const std::string& source,
                                               const SentencePieceSettings& settings)
    : model_(read_sentencepiece_model(bytes, source)), dummy_prefix_(settings.dummy_prefix) {
  load(with_prefix_, bytes, source);
  load(without_prefix_, without_dummy_prefix(bytes), source);
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    names_.add(model_.pieces[id].text, static_cast<TokenId>(id));
    const PieceType type = model_.pieces[id].type;
    if (type == PieceType::Control || type == PieceType::Unknown) {
      special_.push_back(static_cast<int64_t>(id));
    }
  }
  std::vector<AddedIds> added = settings.added;
  if (settings.find_control_pieces) {
    for (const int64_t id : special_) {
      const std::string& name = model_.pieces[static_cast<size_t>(id)].text;
      added.push_back({{.content = name, .normalized = false, .special = true}, {id}});
    }
  }
  for (const auto& [name, id] : settings.named) {
    names_.add(name, static_cast<TokenId>(resolve(id)));
    special_.push_back(resolve(id));
  }
  add_tokens(added);
  std::sort(special_.begin(), special_.end());
  prefix_ = resolve(settings.prefix);
  suffix_ = resolve(settings.suffix);
  decoder_ =
      make_sentencepiece_decoder(model_.add_dummy_prefix && dummy_prefix_ != DummyPrefix::Never);
  size_ = names_.end();
}

int64_t SentencePieceTokenizer::resolve(int64_t id) const {
  const int64_t resolved =
      id < AddedIds::kAfterModel
          ? id
          : id - AddedIds::kAfterModel + static_cast<int64_t>(model_.pieces.size());
  TORCH_CHECK(resolved >= 0 && resolved <= Vocabulary::kLargestId,
              "[tokenizer] added token: expected an id from 0 to ",
              Vocabulary::kLargestId,
              ", found ",
              resolved);
  return resolved;
}

std::vector<int64_t> SentencePieceTokenizer::resolve(
    const std::vector<SurroundingToken>& tokens) const {
  std::vector<int64_t> ids;
  ids.reserve(tokens.size());
  for (const SurroundingToken& token : tokens) {
    const auto id = id_of(token.name);
    TORCH_CHECK(id,
                "[tokenizer] ",
                token.where,
                ": expected a token of the vocabulary, found \"",
                token.name,
                "\"");
    ids.push_back(*id);
  }
  return ids;
}

/// AddedTokens takes ids from a vocabulary. Each added token gets its own number there, because it
/// may become several ids.
void SentencePieceTokenizer::add_tokens(const std::vector<AddedIds>& added) {
  Vocabulary numbers;
  std::vector<AddedToken> tokens;
  for (const AddedIds& entry : added) {
    if (entry.token.content.empty()) {
      continue;
    }
    const auto number = static_cast<TokenId>(numbers.count());
    if (numbers.find(entry.token.content)) {
      continue;
    }
    numbers.add(entry.token.content, number);
    tokens.push_back(entry.token);
    std::vector<int64_t>& ids = expansions_[number];
    for (const int64_t id : entry.ids) {
      ids.push_back(resolve(id));
    }
    if (ids.size() == 1) {
      names_.add(entry.token.content, static_cast<TokenId>(ids[0]));
      if (entry.token.special) {
        special_.push_back(ids[0]);
      }
    }
  }
  added_ = AddedTokens({tokens}, numbers, nullptr);
}

void SentencePieceTokenizer::encode_part(std::string_view part,
                                         size_t base,
                                         bool prefix,
                                         Encoding& encoding) const {
  const SentencePieceProcessor& processor = prefix ? with_prefix_ : without_prefix_;
  const auto pieces = processor.EncodeAsImmutableProto(part);
  for (size_t i = 0; i < pieces.pieces_size(); ++i) {
    const auto piece = pieces.pieces(static_cast<int>(i));
    encoding.ids.push_back(piece.id());
    encoding.offsets.emplace_back(base + piece.begin(), base + piece.end());
  }
}

Encoding SentencePieceTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  check_utf8(text, "text");
  Encoding encoding;
  const PreTokenized pieces = added_.extract(text);
  for (const Piece& piece : pieces.pieces) {
    const auto [begin, end] = pieces.text.origin(piece.begin, piece.end);
    if (!piece.is_token()) {
      const std::string_view part = pieces.view(piece);
      const bool at_start = begin == 0 && !part.starts_with(' ') && !part.starts_with("▁");
      const bool prefix = dummy_prefix_ == DummyPrefix::EveryPart ||
                          (dummy_prefix_ == DummyPrefix::TextStart && at_start);
      encode_part(part, begin, prefix, encoding);
      continue;
    }
    for (const int64_t id : expansions_.at(piece.token)) {
      encoding.ids.push_back(id);
      encoding.offsets.emplace_back(begin, end);
    }
  }
  const size_t added = options.add_special_tokens ? prefix_.size() + suffix_.size() : 0;
  if (options.max_length) {
    TORCH_CHECK(*options.max_length >= added,
                "[tokenizer] max_length: expected at least the ",
                added,
                " special tokens, found ",
                *options.max_length);
    const size_t room = std::min(encoding.ids.size(), *options.max_length - added);
    encoding.ids.resize(room);
    encoding.offsets.resize(room);
  }
  if (options.add_special_tokens) {
    encoding.ids.insert(encoding.ids.begin(), prefix_.begin(), prefix_.end());
    encoding.ids.insert(encoding.ids.end(), suffix_.begin(), suffix_.end());
    encoding.offsets.insert(encoding.offsets.begin(), prefix_.size(), {0, 0});
    encoding.offsets.insert(encoding.offsets.end(), suffix_.size(), {0, 0});
  }
  return encoding;
}

std::string SentencePieceTokenizer::decode(std::span<const int64_t> ids,
                                           bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int64_t id : ids) {
    const std::string* name = names_.token(id);
    if (name != nullptr && !(skip_special_tokens && is_special(id))) {
      tokens.push_back(*name);
    }
  }
  decoder_->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    text += token;
  }
  return text;
}

std::optional<int64_t> SentencePieceTokenizer::id_of(std::string_view token) const {
  return names_.find(token);
}

std::optional<std::string> SentencePieceTokenizer::token_of(int64_t id) const {
  const std::string* name = names_.token(id);
  return name != nullptr ? std::optional(*name) : std::nullopt;
}

bool SentencePieceTokenizer::is_special(int64_t id) const {
  return std::binary_search(special_.begin(), special_.end(), id);
}

}  // namespace

SentencePieceSettings llama_settings(const TokenizerFiles& files) {
  const Json config = files.config.is_null() ? Json::object() : files.config;
  const JsonFields fields(config, files.source("tokenizer_config.json"), "");
  SentencePieceSettings settings;
  const auto add = [&](TokensWithIds tokens) {
    for (auto& [id, token] : tokens) {
      settings.added.push_back({std::move(token), {id}});
    }
  };
  if (fields.has("added_tokens_decoder")) {
    add(read_added_tokens_decoder(fields));
  } else {
    settings.find_control_pieces = true;
  }
  add(read_added_tokens_file(files.added_tokens, files.source("added_tokens.json")));
  const bool legacy = fields.boolean("legacy", true);
  const bool prefix = fields.boolean("add_prefix_space", true);
  settings.dummy_prefix = !prefix  ? DummyPrefix::Never
                          : legacy ? DummyPrefix::EveryPart
                                   : DummyPrefix::TextStart;
  const auto name = [&](const char* key, const char* otherwise) -> SurroundingToken {
    const std::string where = "file " + fields.source() + ": field " + key;
    if (!fields.has(key)) {
      return {otherwise, where + " (missing)"};
    }
    const bool is_object = fields.value(key).is_object();
    return {is_object ? fields.object(key).string("content") : fields.string(key), where};
  };
  if (fields.boolean("add_bos_token", true)) {
    settings.prefix = {name("bos_token", "<s>")};
  }
  if (fields.boolean("add_eos_token", false)) {
    settings.suffix = {name("eos_token", "</s>")};
  }
  return settings;
}

std::shared_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model,
                                                        const std::string& source,
                                                        const SentencePieceSettings& settings) {
  return std::make_shared<SentencePieceTokenizer>(model, source, settings);
}

}  // namespace reprise::text
