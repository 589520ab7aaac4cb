// Tokenizers whose model is a sentencepiece file (tokenizer.model), run by libsentencepiece.
#pragma once

#include <reprise/text/tokenizer.h>

#include "text/added_tokens.h"
#include "text/tokenizer_config.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// When sentencepiece's leading space (add_dummy_prefix) is put before a part of the text. Parts
/// are what stands between added tokens.
enum class DummyPrefix {
  EveryPart,  ///< as the model says, part by part: what older tokenizers do ("legacy")
  TextStart,  ///< only where the text itself begins, and not with a space
  Never,
};

/// An added token with the ids it stands for; an id of kBehindModel + n is the nth id behind the
/// model's own pieces.
struct AddedIds {
  static constexpr int64_t kBehindModel = int64_t{1} << 40;
  AddedToken token;
  std::vector<int64_t> ids;
};

/// A token that add_special_tokens puts before or behind the text.
struct AroundText {
  std::string name;   ///< of a piece or of an added token
  std::string where;  ///< who names it, for messages
};

struct SentencePieceSettings {
  std::vector<AddedIds> added;
  bool find_control_pieces = false;  ///< the model's own <s>, </s>, <unk> are added tokens as well
  DummyPrefix dummy_prefix = DummyPrefix::EveryPart;
  std::vector<AroundText> prefix, suffix;
  /// Ids that have a name but are not looked for in texts.
  std::vector<std::pair<std::string, int64_t>> named;
};

/// Llama's and Mistral's tokenizer.model: add_bos_token, add_eos_token, legacy, add_prefix_space
/// and added_tokens_decoder of tokenizer_config.json, and the file added_tokens.json.
SentencePieceSettings llama_settings(const TokenizerFiles& files);

/// ChatGLM2's and ChatGLM3's tokenizer, which is code in their repositories: see
/// chatglm_tokenizer.cpp.
SentencePieceSettings chatglm_settings();
bool is_chatglm(const Json& tokenizer_config);

/// `model` is the content of the file. Throws c10::Error naming `source` if it is not a model.
std::shared_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model,
                                                        const std::string& source,
                                                        const SentencePieceSettings& settings);

}  // namespace reprise::detail
