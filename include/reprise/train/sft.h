// Supervised fine-tuning: cross entropy of the labelled tokens.
#pragma once

#include <reprise/export.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace reprise {

enum class SftLoss : uint8_t {
  Nll,  ///< nll: mean over all labelled tokens of the optimizer step
  Sum,  ///< sum: sum over the tokens of a row, mean over rows, as in the DPO authors' code
  Dft,  ///< dft: nll with each token's loss multiplied by the token's probability
};

/// "nll", "chunked_nll" (the same: logits are never all in memory), "sum" or "dft". Throws for any
/// other name.
REPRISE_API SftLoss parse_sft_loss(std::string_view name);

/// Trains on rows of Objective::Sft, packed or not. `model` needs a language-model head.
REPRISE_API std::unique_ptr<TrainingObjective> make_sft(std::shared_ptr<Model> model,
                                                        SftLoss loss = SftLoss::Nll);

}  // namespace reprise
