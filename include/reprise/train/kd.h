// Distillation: a student learns from the distribution of a teacher, and from the tokens.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/head.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

struct KdOptions {
  DivergenceOptions divergence = {};
  double coefficient = 0.4;      ///< share of the divergence; the rest is cross entropy
  bool offload_teacher = false;  ///< the teacher's weights stay on the CPU between its passes
};

/// Both are token means over the whole optimizer step. The teacher may be of another size; its
/// vocabulary must begin with the student's.
REPRISE_API std::unique_ptr<TrainingObjective> make_kd(std::shared_ptr<Model> student,
                                                       std::shared_ptr<Model> teacher,
                                                       const KdOptions& options = {});

}  // namespace reprise
