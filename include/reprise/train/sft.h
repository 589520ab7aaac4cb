// Supervised fine-tuning: cross entropy of the tokens that rows train on.
#pragma once

#include <reprise/export.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace reprise {

enum class SftLoss : uint8_t {
  Nll,  ///< nll: mean over all tokens of the optimizer step
  Sum,  ///< sum: tokens summed, mean over rows, as the DPO authors' code
  Dft,  ///< dft: as nll, each token's loss times its own probability
};

/// Throws listing the names there are; chunked_nll is nll, which never holds all logits here.
REPRISE_API SftLoss parse_sft_loss(std::string_view name);

REPRISE_API std::unique_ptr<TrainingObjective> make_sft(std::shared_ptr<Model> model,
                                                        SftLoss loss = SftLoss::Nll);

}  // namespace reprise
