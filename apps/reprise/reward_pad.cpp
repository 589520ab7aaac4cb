#include "reprise/reward_pad.h"

#include <reprise/train/rm.h>

namespace reprise::app {

Pooling pooling_named(const std::string& name) {
  return name == "rightmost_not_pad" ? Pooling::RightmostNotPad : Pooling::LastAttended;
}

std::string set_reward_pad(Model& model, const Tokenizer& tokenizer, const RewardRows& rows) {
  const auto& special = tokenizer.special_tokens();
  const auto pad = reward_pad_id(special, rows.pooling, rows.end_with_pad);
  model.set_pad_id(pad);
  if (pad) {
    return {};
  }
  return std::string(special.pad ? "rows end with the tokenizer's pad token, at which transformers "
                                   "would not read a reward"
                                 : "the tokenizer has no pad token") +
         ": config.json gets no pad_token_id, and transformers scores one row at a time. For "
         "batches, name a token that no row ends with as pad_token in tokenizer_config.json and "
         "its "
         "id as pad_token_id in config.json; or train as TRL does, by --pooling rightmost_not_pad";
}

std::string ambiguous_reward(const Model& model, const Tokenizer& tokenizer, Pooling pooling) {
  const auto pad = model.config().pad_id;
  if (!pad || pad != tokenizer.special_tokens().eos || pooling == Pooling::RightmostNotPad) {
    return {};
  }
  return "its pad token is its end token: TRL trains such a model at the token before the end, "
         "where transformers reads it, others at the end. This run reads it at the end; give "
         "--reward_pooling rightmost_not_pad if it was trained before it";
}

}  // namespace reprise::app
