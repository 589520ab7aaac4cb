#include <reprise/train/objective.h>

#include "train/budget/memory_meter.h"

namespace reprise {

void StepContext::forward_done() const {
  if (meter != nullptr) {
    meter->end_forward();
  }
}

TrainingObjective::~TrainingObjective() = default;

double TrainingObjective::weight(const Batch& /*batch*/) const {
  return 1;
}

double TrainingObjective::evaluation_weight(const Batch& batch) const {
  return weight(batch);
}

void TrainingObjective::begin_evaluation() {}

void TrainingObjective::end_evaluation(const World& /*world*/) {}

void TrainingObjective::after_step(int64_t /*step*/) {}

NamedTensors TrainingObjective::state() const {
  return {};
}

void TrainingObjective::load(const TensorFile& /*file*/) {}

int64_t TrainingObjective::frozen_bytes() const {
  return 0;
}

void TrainingObjective::save_extras(const std::filesystem::path& /*folder*/) const {}

}  // namespace reprise
