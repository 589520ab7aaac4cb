// Process reward models: each step of an answer is judged.
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
  /// Placeholders: ids of the tokens that stand for rewards; empty: the whole vocabulary competes.
  /// Soft labels need two, the good one first.
  std::vector<int64_t> reward_tokens = {};
};

/// StepEnds: `model` has a TokenClasses head. Placeholders: a language-model head.
REPRISE_API std::unique_ptr<TrainingObjective> make_prm(std::shared_ptr<Model> model,
                                                        const PrmOptions& options = {});

}  // namespace reprise
