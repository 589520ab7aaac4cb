// make_token_model(): the model class for the "type" of a tokenizer.json.
#include "text/models/token_model.h"

namespace reprise::text {

std::unique_ptr<const TokenModel> make_token_model(const JsonFields& fields) {
  // Old files have no "type" for a BPE model.
  const bool looks_like_bpe = !fields.has("type") && fields.has("merges");
  const std::string type = looks_like_bpe ? "BPE" : fields.string("type");
  if (type == "BPE") {
    return make_bpe_model(fields);
  }
  if (type == "Unigram") {
    return make_unigram_model(fields);
  }
  if (type == "WordLevel") {
    return make_word_level_model(fields);
  }
  if (type == "WordPiece") {
    return make_word_piece_model(fields);
  }
  fields.refuse("type", "BPE, Unigram, WordLevel or WordPiece", "\"" + type + "\"");
}

}  // namespace reprise::text
