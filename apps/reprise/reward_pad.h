// What config.json of a reward model says about padding, so that transformers reads rewards where
// they were trained.
#pragma once

#include <reprise/model/model.h>
#include <reprise/text/tokenizer.h>

#include <string>

namespace reprise::app {

/// "last_attended" or "rightmost_not_pad".
Pooling pooling_named(const std::string& name);

struct RewardRows {
  Pooling pooling = Pooling::LastAttended;
  bool end_with_pad = false;  ///< some row ends with the tokenizer's pad token
};

/// Sets the model's pad id, as reward_pad_id() (reprise/train/rm.h) says. Returns a warning if
/// transformers cannot score batches with it, else an empty string.
std::string set_reward_pad(Model& model, const Tokenizer& tokenizer, const RewardRows& rows);

/// A warning if the place of this model's rewards depends on who trained it; else empty.
std::string ambiguous_reward(const Model& model, const Tokenizer& tokenizer, Pooling pooling);

}  // namespace reprise::app
