// Process reward models: trained to judge each step of an answer.
#pragma once

#include <reprise/data/rows.h>
#include <reprise/export.h>
#include <reprise/train/objective.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise {

struct PrmOptions {
  PrmConvention convention = PrmConvention::StepEnds;
  /// Placeholders only: ids of the tokens that stand for rewards. The prediction is a choice among
  /// them; if empty, among the whole vocabulary. Soft labels need exactly two, the good one first.
  std::vector<int64_t> reward_tokens = {};
};

/// Trains on rows of Objective::Prm. `model` needs a TokenClasses head for StepEnds and a
/// language-model head for Placeholders.
REPRISE_API std::unique_ptr<TrainingObjective> make_prm(std::shared_ptr<Model> model,
                                                        const PrmOptions& options = {});

}  // namespace reprise
