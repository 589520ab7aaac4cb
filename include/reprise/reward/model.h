// Rewards from a reward model, for example one trained with `reprise rm`.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/reward/reward.h>
#include <reprise/text/tokenizer.h>

#include <cstdint>
#include <memory>
#include <string>

namespace reprise {

/// How prompt and completion are formatted for the reward model.
enum class RewardText : uint8_t {
  AsRequested,  ///< as a chat if the request has messages, otherwise as text
  Text,         ///< the prompt's and the completion's text, concatenated
  Chat,         ///< always as a chat: a plain-text prompt becomes a user message
};

struct ModelRewardOptions {
  std::string name = "model";  ///< in metrics
  int64_t batch_size = 8;      ///< completions per forward pass
  int64_t max_length = 0;      ///< in tokens; 0, or above its maximum: the model's positions
  Pooling pooling = Pooling::LastAttended;  ///< as in its training
  /// Return (reward - reward_mean) / reward_std, with the numbers that `reprise rm` saved in
  /// config.json.
  bool is_normalized = false;
  bool is_offloaded = false;  ///< keep its weights on the CPU between calls
  RewardText text = RewardText::AsRequested;
  std::string chat_template = {};  ///< used instead of the tokenizer's
};

/// Completions are tokenised by the reward model's own tokenizer, like the rows it was trained on:
/// chats with its template, text with EOS at the end if the completion is finished. So the policy
/// may have another tokenizer. Sequences longer than max_length are not scored (NaN), as training
/// drops such rows; cutting them would leave the answer without its question.
class REPRISE_API ModelReward : public RewardSource {
 public:
  virtual int64_t too_long() const = 0;  ///< completions that were too long so far
};

/// `model` needs a Score head with one label. It is frozen (eval mode, no gradients) and runs on
/// its current device without checkpointed regions, which is checked.
REPRISE_API std::unique_ptr<ModelReward> make_model_reward(
    std::shared_ptr<Model> model,
    std::shared_ptr<const Tokenizer> tokenizer,
    const ModelRewardOptions& options = {});

}  // namespace reprise
