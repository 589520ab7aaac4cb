// Knowledge distillation: a student learns the teacher's distribution over the vocabulary, and the
// labelled tokens.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/head.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

struct KdOptions {
  DivergenceOptions divergence = {};
  /// Weight of the divergence, above 0 and at most 1. The cross entropy has the remaining weight.
  double coefficient = 0.4;
  bool offload_teacher = false;  ///< keep the teacher's weights on the CPU between its passes
};

/// Trains on rows of Objective::Kd. Both losses are means over the labelled tokens of the optimizer
/// step. The teacher is frozen (eval mode, no gradients). It may have another size, but the first
/// part of its vocabulary must be the student's.
REPRISE_API std::unique_ptr<TrainingObjective> make_kd(std::shared_ptr<Model> student,
                                                       std::shared_ptr<Model> teacher,
                                                       const KdOptions& options = {});

}  // namespace reprise
