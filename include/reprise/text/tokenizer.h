// Tokenizers: text to ids and back, as Hugging Face's tokenizers library does it.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/text/chat_template.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

namespace detail {
struct TokenizerConfig;
}

using TokenIds = std::vector<int64_t>;

struct EncodeOptions {
  bool add_special_tokens = true;         ///< what the post-processor adds (<s>, ...)
  std::optional<size_t> max_length = {};  ///< truncate to this, at the right
};

struct Encoding {
  TokenIds ids;
  /// Where each token stands in the text, as byte ranges; (0, 0) for one that was added.
  std::vector<std::pair<size_t, size_t>> offsets;
};

/// How ids are called: from tokenizer_config.json and special_tokens_map.json.
struct SpecialTokens {
  std::optional<int64_t> bos, eos, pad, unk;
};

/// Immutable after loading; may be shared by threads.
class REPRISE_API Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Opens a model folder: tokenizer.json if there is one, else tokenizer.model (sentencepiece);
  /// then tokenizer_config.json, special_tokens_map.json, added_tokens.json and chat templates.
  /// Special tokens that a tokenizer.json lacks get the next free ids, as in transformers.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& folder);

  /// From the text of a tokenizer.json (and, optionally, of a tokenizer_config.json).
  static std::shared_ptr<const Tokenizer> from_json(std::string_view tokenizer_json,
                                                    const std::string& source,
                                                    const Json& tokenizer_config = nullptr);

  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  virtual std::string decode(std::span<const int64_t> ids,
                             bool skip_special_tokens = false) const = 0;

  virtual int64_t size() const = 0;  ///< one more than the largest id
  virtual std::optional<int64_t> id_of(std::string_view token) const = 0;
  virtual std::optional<std::string> token_of(int64_t id) const = 0;
  virtual bool is_special(int64_t id) const = 0;

  const SpecialTokens& special_tokens() const { return special_tokens_; }

  /// The default chat template, or null if the model ships none.
  const ChatTemplate* chat_template() const { return chat_template_ ? &*chat_template_ : nullptr; }

  /// Renders messages (and what else is in `variables`: tools, add_generation_prompt, ...) by the
  /// chat template, with bos_token, eos_token and the other special tokens as variables. If there
  /// are tools and a template called tool_use, that one is taken. Throws if there is no template,
  /// saying so.
  RenderedChat render_chat(const Json& messages, const Json& variables = Json::object()) const;

  /// A rendered chat as ids. No special tokens are added: the template wrote them. `generated`
  /// says of each token whether it is the assistant's own: whether it covers a part of a generation
  /// block.
  struct EncodedChat {
    TokenIds ids;
    std::vector<bool> generated;
  };
  EncodedChat encode_chat(const Json& messages, const Json& variables = Json::object()) const;

 protected:
  Tokenizer();
  void configure(const detail::TokenizerConfig& config);

 private:
  const ChatTemplate& template_for(const Json& variables) const;

  SpecialTokens special_tokens_;
  Json template_variables_;
  std::optional<ChatTemplate> chat_template_;  // the one called default
  std::optional<ChatTemplate> tool_template_;  // the one called tool_use
  std::vector<std::string> template_names_;
};

/// Turns ids that arrive one at a time into text, never half a character.
class REPRISE_API StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                         bool skip_special_tokens = true);
  std::string push(int64_t id);  ///< the text that became certain with this id
  std::string finish();          ///< what is left

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  TokenIds pending_;    // context, then ids whose text is not complete
  size_t context_ = 0;  // how many of them are context
  size_t emitted_ = 0;  // bytes of text that the context stands for
};

struct BpeTraining {
  int64_t vocabulary = 512;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  int64_t min_frequency = 2;
};

/// Trains a byte-level BPE tokenizer (GPT-2's pre-tokenizer) on `text`; returns a tokenizer.json
/// that Hugging Face's library opens too.
REPRISE_API std::string train_bpe(std::string_view text, const BpeTraining& options = {});

}  // namespace reprise
