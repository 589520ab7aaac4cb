// Reward models: trained on pairs, so that the chosen response scores higher than the rejected one.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/reward.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise {

struct RmOptions {
  RewardOptions loss = {};
  Pooling pooling = Pooling::LastAttended;  ///< the token whose output is the reward
  bool use_margin = true;                   ///< use the rows' margins; 0 for rows without one
};

/// Trains on rows of Objective::Rm. `model` needs a Score head with one label.
///
/// The mean and deviation of the rewards of the latest evaluation are saved with the model, as
/// reward_mean and reward_std in config.json, or in reward_statistics.json beside an adapter. They
/// are part of state(), so each checkpoint has those of its own weights.
REPRISE_API std::unique_ptr<TrainingObjective> make_rm(std::shared_ptr<Model> model,
                                                       const RmOptions& options = {});

/// The pad_token_id (Model::set_pad_id) with which transformers reads rewards where `pooling` does.
/// transformers takes the last token whose id is not pad_token_id, in batches that are padded by
/// the model's tokenizer. That is the last token of a row unless `rows_end_with_pad`
/// (DatasetReport). Then, and if the tokenizer has no pad token, there is none: transformers takes
/// the last token of a single row, and refuses batches.
///
/// For RightmostNotPad it is TRL's: the pad token, or the end token if there is none.
REPRISE_API std::optional<int64_t> reward_pad_id(const SpecialTokens& tokens,
                                                 Pooling pooling,
                                                 bool rows_end_with_pad);

}  // namespace reprise
