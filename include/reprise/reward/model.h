// Rewards from a reward model, such as `reprise rm` makes.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/reward/reward.h>
#include <reprise/text/tokenizer.h>

#include <cstdint>
#include <memory>
#include <string>

namespace reprise {

/// How a completion is written for the reward model.
enum class RewardText : uint8_t {
  AsRequested,  ///< a request with messages as a chat, one without as text
  Text,         ///< prompt and completion as the policy has them, one behind the other
  Chat,         ///< always as a chat: a prompt without messages is the user's message
};

struct ModelRewardOptions {
  std::string name = "model";
  int64_t batch_size = 8;
  int64_t max_length = 0;  ///< in tokens; 0, or more than it has: the model's positions
  Pooling pooling = Pooling::RightmostNotPad;
  /// (reward - reward_mean) / reward_std, with the numbers that `reprise rm` left in config.json.
  bool is_normalized = false;
  bool is_offloaded = false;  ///< its weights are on the CPU between the calls
  RewardText text = RewardText::AsRequested;
  std::string chat_template = {};  ///< replaces the tokenizer's
};

/// Completions are tokenised again by the reward model's own tokenizer, as the rows of its training
/// were: chats by its template, text with EOS at its end if the completion is finished. So the
/// policy's tokenizer may be another one. What is longer than max_length is not scored (NaN), as
/// training drops such rows: cut at the left, the model would judge an answer without its question.
class REPRISE_API ModelReward : public RewardSource {
 public:
  virtual int64_t too_long() const = 0;  ///< how many were, since the beginning
};

/// `model` has a Score head of one label and is frozen by this: eval mode, no gradients. Its passes
/// are proven free of checkpointed regions. It scores where it is now, also if it is offloaded
/// between the calls.
REPRISE_API std::unique_ptr<ModelReward> make_model_reward(
    std::shared_ptr<Model> model,
    std::shared_ptr<const Tokenizer> tokenizer,
    const ModelRewardOptions& options = {});

}  // namespace reprise
