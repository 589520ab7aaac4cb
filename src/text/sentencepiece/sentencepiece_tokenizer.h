// Tokenizers with a sentencepiece model (tokenizer.model), run by libsentencepiece.
#pragma once

#include <reprise/text/tokenizer.h>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer_config.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

/// When sentencepiece's leading space (add_dummy_prefix) is put before a part of the text. Parts
/// are the texts between added tokens.
enum class DummyPrefix {
  EveryPart,  ///< before every part, if the model says so: the "legacy" behaviour
  TextStart,  ///< only at the start of the text, unless that is a space
  Never,
};

/// An added token with the ids that it becomes. An id of kAfterModel + n is the nth id after the
/// pieces of the model.
struct AddedIds {
  static constexpr int64_t kAfterModel = int64_t{1} << 40;
  AddedToken token;
  std::vector<int64_t> ids;
};

/// A token that add_special_tokens puts before or after the text.
struct SurroundingToken {
  std::string name;   ///< of a piece or an added token
  std::string where;  ///< where it is configured, for error messages
};

struct SentencePieceSettings {
  std::vector<AddedIds> added;
  bool find_control_pieces = false;  ///< treat the model's <s>, </s>, <unk> as added tokens too
  DummyPrefix dummy_prefix = DummyPrefix::EveryPart;
  std::vector<SurroundingToken> prefix, suffix;
  /// Ids with a name that is not searched for in texts.
  std::vector<std::pair<std::string, int64_t>> named;
};

/// For the tokenizer.model of Llama and Mistral. Reads add_bos_token, add_eos_token, legacy,
/// add_prefix_space and added_tokens_decoder from tokenizer_config.json, and added_tokens.json.
SentencePieceSettings llama_settings(const TokenizerFiles& files);

/// For ChatGLM2 and ChatGLM3, whose tokenizer is code in their repositories: see
/// chatglm_tokenizer.cpp.
SentencePieceSettings chatglm_settings();
bool is_chatglm(const Json& tokenizer_config);

/// `model` is the content of the file `source`. Throws c10::Error if it is not a valid model.
std::shared_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model,
                                                        const std::string& source,
                                                        const SentencePieceSettings& settings);

}  // namespace reprise::text
