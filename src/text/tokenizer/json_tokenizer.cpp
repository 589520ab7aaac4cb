// Runs the stages in order, and truncates.
#include "text/tokenizer/json_tokenizer.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace reprise {

std::shared_ptr<const Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                                      const std::string& source,
                                                      const Json& tokenizer_config) {
  text::TokenizerFiles files;
  files.config = tokenizer_config;
  const text::TokenizerConfig config = text::read_tokenizer_config(files);
  const auto tokenizer =
      std::make_shared<text::JsonTokenizer>(parse_json(tokenizer_json, source), source, config);
  static_cast<Tokenizer&>(*tokenizer).configure(config);
  return tokenizer;
}

namespace text {
namespace {

constexpr size_t kPartBytes = size_t{1} << 16;  // Note [Long texts]

}  // namespace

JsonTokenizer::JsonTokenizer(const Json& tokenizer,
                             const std::string& source,
                             const TokenizerConfig& config) {
  const JsonFields fields(tokenizer, source, "");
  if (fields.has("version") && fields.string("version") != "1.0") {
    fields.refuse("version", "\"1.0\"", describe(fields.value("version")));
  }
  if (fields.has("normalizer")) {
    normalizer_ = make_normalizer(fields.object("normalizer"));
  }
  if (fields.has("pre_tokenizer")) {
    pre_tokenizer_ = make_pre_tokenizer(fields.object("pre_tokenizer"));
    pre_tokenizer_->add_steps(steps_);
  }
  model_ = make_token_model(fields.object("model"));
  if (fields.has("post_processor")) {
    post_processor_ = make_post_processor(fields.object("post_processor"));
  }
  if (fields.has("decoder")) {
    decoder_ = make_decoder(fields.object("decoder"));
  }
  add_tokens(fields, config);
  truncation_ = read_truncation(fields);
}

void JsonTokenizer::add_tokens(const JsonFields& fields, const TokenizerConfig& config) {
  std::vector<AddedToken> own;
  if (fields.has("added_tokens")) {
    for (const JsonFields& token : fields.objects("added_tokens")) {
      own.push_back(read_added_token(token));
    }
  }
  std::vector<AddedToken> configured = config.overriding;
  // Named tokens are special, whatever their entry says.
  std::unordered_set<std::string> named;
  for (const Json& content : config.variables) {
    named.insert(content.get<std::string>());
  }
  for (AddedToken& token : config.is_complete ? configured : own) {
    token.special = token.special || named.contains(token.content);
  }
  std::unordered_set<std::string> known;
  for (const auto* tokens : {&own, &configured}) {
    for (const AddedToken& token : *tokens) {
      known.insert(token.content);
    }
  }
  for (const AddedToken& token : config.missing) {
    if (known.insert(token.content).second) {
      configured.push_back(token);
    }
  }
  added_ = AddedTokens({own, configured}, model_->vocabulary(), normalizer_.get());
}

std::optional<JsonTokenizer::Truncation> JsonTokenizer::read_truncation(const JsonFields& fields) {
  if (!fields.has("truncation")) {
    return std::nullopt;
  }
  const JsonFields section = fields.object("truncation");
  const std::string direction = section.optional_string("direction").value_or("Right");
  if (direction != "Left" && direction != "Right") {
    section.refuse("direction", "Left or Right", "\"" + direction + "\"");
  }
  const std::string strategy = section.optional_string("strategy").value_or("LongestFirst");
  if (strategy != "LongestFirst" && strategy != "OnlyFirst" && strategy != "OnlySecond") {
    section.refuse("strategy", "LongestFirst, OnlyFirst or OnlySecond", "\"" + strategy + "\"");
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return Truncation{static_cast<size_t>(section.integer("max_length", 0, kMost)),
                    direction == "Left" ? Direction::Left : Direction::Right,
                    strategy == "OnlySecond"};
}

std::vector<EncodedToken> JsonTokenizer::tokenize(const PreTokenized& pieces) const {
  std::vector<EncodedToken> result;
  result.reserve(pieces.pieces.size());
  std::vector<ModelToken> tokens;
  const Vocabulary& vocabulary = model_->vocabulary();
  for (const Piece& piece : pieces.pieces) {
    if (piece.is_token()) {
      result.push_back(
          {piece.token, pieces.text.origin(piece.begin, piece.end), pieces.view(piece)});
      continue;
    }
    tokens.clear();
    model_->tokenize(pieces.view(piece), tokens);
    for (const ModelToken& token : tokens) {
      // Dropped characters make the sum of lengths shorter than the piece, never longer.
      const auto offsets = pieces.text.origin(piece.begin + token.begin, piece.begin + token.end);
      result.push_back({token.id, offsets, *vocabulary.token(token.id)});
    }
  }
  return result;
}

template <class Token>
void JsonTokenizer::truncate(std::vector<Token>& tokens, const EncodeOptions& options) const {
  if (!options.max_length && !truncation_) {
    return;
  }
  const size_t added =
      options.add_special_tokens && post_processor_ ? post_processor_->added_tokens() : 0;
  const size_t max_length = options.max_length ? *options.max_length : truncation_->max_length;
  TORCH_CHECK(max_length >= added,
              "[tokenizer] max_length: expected at least the ",
              added,
              " special tokens, found ",
              max_length);
  const size_t room = max_length - added;
  if (tokens.size() <= room) {
    return;
  }
  TORCH_CHECK(options.max_length || !truncation_->only_second || room == 0,
              "[tokenizer] truncation.strategy is OnlySecond: a single text of ",
              tokens.size(),
              " tokens cannot be cut to ",
              room);
  const bool left = !options.max_length && truncation_->direction == Direction::Left;
  if (left) {
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(room));
  } else {
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(room), tokens.end());
  }
}

// Note [Long texts]
// A text may be a row of tens of megabytes. Its pieces, their origins and its tokens would take up
// to a hundred times that. So pieces pass the steps in groups, depth first, and of the tokens only
// ids are kept, up to as many as are wanted; origins end with the last step that needs them. All of
// this gives the ids that the whole text would give: steps treat every piece by itself, and
// TokenModel::cut() finds where a piece can be cut.
bool JsonTokenizer::needs_origins(size_t first_step) const {
  const auto first = steps_.begin() + static_cast<std::ptrdiff_t>(first_step);
  return std::any_of(first, steps_.end(), [](const auto& step) { return step.needs_origins; });
}

bool JsonTokenizer::run_steps(size_t step, PreTokenized& text, const PieceGroups& groups) const {
  if (step == steps_.size()) {
    return groups.use(text);
  }
  const auto next = [&](PreTokenized& group) { return run_steps(step + 1, group, groups); };
  return steps_[step].run(text,
                          {groups.bytes, groups.needs_origins || needs_origins(step + 1), next});
}

void JsonTokenizer::append_ids(std::string_view piece,
                               size_t wanted,
                               std::vector<ModelToken>& tokens,
                               TokenIds& ids) const {
  do {
    const size_t length =
        piece.size() <= kPartBytes ? piece.size() : model_->cut(piece, kPartBytes);
    tokens.clear();
    model_->tokenize(piece.substr(0, length), tokens);
    for (const ModelToken& token : tokens) {
      ids.push_back(token.id);
    }
    piece.remove_prefix(length);
  } while (!piece.empty() && ids.size() < wanted);
}

TokenIds JsonTokenizer::with_special_tokens(TokenIds ids, const EncodeOptions& options) const {
  if (!post_processor_) {
    return ids;
  }
  // They go around the text, whatever it is, so one token can stand for all of it.
  constexpr int64_t kText = -1;
  std::vector<EncodedToken> around = {{kText, {0, 0}, {}}};
  post_processor_->apply(around, "", options.add_special_tokens);
  if (around.size() == 1) {
    return ids;
  }
  TokenIds result;
  result.reserve(ids.size() + around.size());
  for (const EncodedToken& token : around) {
    if (token.id == kText) {
      result.insert(result.end(), ids.begin(), ids.end());
    } else {
      result.push_back(token.id);
    }
  }
  return result;
}

TokenIds JsonTokenizer::encode_ids(std::string_view text, const EncodeOptions& options) const {
  const size_t kept = options.max_length.value_or(SIZE_MAX);
  const size_t wanted = truncation_ ? SIZE_MAX : std::min(options.wanted.value_or(SIZE_MAX), kept);
  TokenIds ids;
  std::vector<ModelToken> tokens;  // of a piece
  PreTokenized pieces = added_.extract(text, needs_origins(0));
  const auto use = [&](const PreTokenized& group) {
    for (const Piece& piece : group.pieces) {
      if (ids.size() >= wanted) {
        break;
      }
      if (piece.is_token()) {
        ids.push_back(piece.token);
      } else {
        append_ids(group.view(piece), wanted, tokens, ids);
      }
    }
    return ids.size() < wanted;
  };
  run_steps(0, pieces, {.bytes = kPartBytes, .needs_origins = false, .use = use});
  truncate(ids, options);
  return with_special_tokens(std::move(ids), options);
}

Encoding JsonTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  check_utf8(text, "text");
  if (!options.offsets) {
    return {.ids = encode_ids(text, options), .offsets = {}};
  }
  PreTokenized extracted = added_.extract(text);
  PreTokenized pieces;
  const auto use = [&](PreTokenized& all) {
    pieces = std::move(all);
    return true;
  };
  run_steps(0, extracted, {.bytes = SIZE_MAX, .needs_origins = true, .use = use});
  std::vector<EncodedToken> tokens = tokenize(pieces);
  truncate(tokens, options);
  if (post_processor_) {
    post_processor_->apply(tokens, text, options.add_special_tokens);
  }
  Encoding encoding;
  encoding.ids.reserve(tokens.size());
  encoding.offsets.reserve(tokens.size());
  for (const EncodedToken& token : tokens) {
    encoding.ids.push_back(token.id);
    encoding.offsets.push_back(token.offsets);
  }
  return encoding;
}

std::string JsonTokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int64_t id : ids) {
    const std::string* token = added_.decoded(id);
    if (token == nullptr) {
      token = model_->vocabulary().token(id);
    }
    if (token != nullptr && !(skip_special_tokens && added_.is_special(*token))) {
      tokens.push_back(*token);
    }
  }
  std::string text;
  if (decoder_) {
    decoder_->apply(tokens);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += !decoder_ && i > 0 ? " " : "";
    text += tokens[i];
  }
  return text;
}

int64_t JsonTokenizer::size() const {
  return std::max(model_->vocabulary().end(), added_.end());
}

std::optional<int64_t> JsonTokenizer::id_of(std::string_view token) const {
  if (const auto added = added_.find(token)) {
    return added;
  }
  return model_->vocabulary().find(token);
}

std::optional<std::string> JsonTokenizer::token_of(int64_t id) const {
  if (const AddedToken* added = added_.token(id)) {
    return added->content;
  }
  const std::string* token = model_->vocabulary().token(id);
  return token != nullptr ? std::optional(*token) : std::nullopt;
}

bool JsonTokenizer::is_special(int64_t id) const {
  const AddedToken* added = added_.token(id);
  return added != nullptr && added_.is_special(added->content);
}

}  // namespace text
}  // namespace reprise
