// Tokenizers: text to token ids and back, with the results of Hugging Face's tokenizers library.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/jinja/chat_template.h>

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

namespace text {
struct TokenizerConfig;
}

using TokenIds = std::vector<int64_t>;

struct EncodeOptions {
  bool add_special_tokens = true;         ///< add those of the post-processor (<s>, ...)
  std::optional<size_t> max_length = {};  ///< truncate at the right to this many tokens
  bool offsets = true;  ///< false: none are wanted, which takes much less memory for a long text
  /// Without offsets: only the first so many tokens of the text are wanted, and the text after them
  /// need not be tokenized. There may be more.
  std::optional<size_t> wanted = {};
};

struct Encoding {
  TokenIds ids;
  /// The bytes [begin, end) of the text that each token covers; (0, 0) for special tokens that were
  /// added. May be empty if EncodeOptions::offsets is false.
  std::vector<std::pair<size_t, size_t>> offsets;
};

/// Ids of the special tokens named in tokenizer_config.json and special_tokens_map.json.
struct SpecialTokens {
  std::optional<int64_t> bos, eos, pad, unk;
};

/// Immutable after loading; may be shared by threads.
class REPRISE_API Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Opens the tokenizer of a model folder: tokenizer.json or else tokenizer.model (sentencepiece),
  /// with tokenizer_config.json, special_tokens_map.json, added_tokens.json and chat templates.
  /// Special tokens missing from tokenizer.json get the next free ids, as in transformers. Throws
  /// c10::Error with the file and the field for what cannot be read.
  static std::shared_ptr<const Tokenizer> open(const std::filesystem::path& folder);

  /// From the text of a tokenizer.json and optionally a parsed tokenizer_config.json. `source`
  /// names the text in error messages.
  static std::shared_ptr<const Tokenizer> from_json(std::string_view tokenizer_json,
                                                    const std::string& source,
                                                    const Json& tokenizer_config = nullptr);

  /// Throws if the text is not UTF-8, or has a character that the tokenizer cannot represent.
  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  virtual std::string decode(std::span<const int64_t> ids,
                             bool skip_special_tokens = false) const = 0;

  virtual int64_t size() const = 0;  ///< largest id + 1
  virtual std::optional<int64_t> id_of(std::string_view token) const = 0;
  virtual std::optional<std::string> token_of(int64_t id) const = 0;
  virtual bool is_special(int64_t id) const = 0;

  const SpecialTokens& special_tokens() const { return special_tokens_; }

  /// The default chat template; null if the model has none.
  const ChatTemplate* chat_template() const { return chat_template_ ? &*chat_template_ : nullptr; }

  /// Renders messages with the chat template. `variables` may add tools, add_generation_prompt and
  /// others; the special tokens (bos_token, eos_token, ...) are always defined. With tools, a
  /// template called tool_use is preferred. Throws if there is no template.
  RenderedChat render_chat(const Json& messages, const Json& variables = Json::object()) const;

  struct EncodedChat {
    TokenIds ids;
    std::vector<bool> generated;  ///< per token: whether it overlaps a {% generation %} block
  };
  /// Renders and tokenises a chat. No special tokens are added, because the template writes them.
  EncodedChat encode_chat(const Json& messages, const Json& variables = Json::object()) const;

 protected:
  Tokenizer();
  void configure(const text::TokenizerConfig& config);

 private:
  const ChatTemplate& template_for(const Json& variables) const;

  SpecialTokens special_tokens_;
  Json template_variables_;
  std::optional<ChatTemplate> chat_template_;  // named "default"
  std::optional<ChatTemplate> tool_template_;  // named "tool_use"
  std::vector<std::string> template_names_;
};

/// Decodes ids one at a time and emits only complete characters.
class REPRISE_API StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                         bool skip_special_tokens = true);
  std::string push(int64_t id);  ///< text that later ids cannot change any more
  std::string finish();          ///< the remaining text

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  TokenIds pending_;    // context, then ids whose text is incomplete
  size_t context_ = 0;  // leading ids of pending_ that are context
  size_t emitted_ = 0;  // bytes of text that the context decodes to
};

struct BpeTraining {
  int64_t vocabulary = 512;  ///< size, including the 256 bytes and the special tokens
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  int64_t min_frequency = 2;  ///< rarer pairs are not merged
};

/// Trains a byte-level BPE tokenizer with GPT-2's pre-tokenizer on `text`. Returns a
/// tokenizer.json, which Hugging Face's library can open too.
REPRISE_API std::string train_bpe(std::string_view text, const BpeTraining& options = {});

}  // namespace reprise
