#include <reprise/train/objective.h>

namespace reprise {

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

void TrainingObjective::load(const SafetensorsFile& /*file*/) {}

int64_t TrainingObjective::frozen_bytes() const {
  return 0;
}

void TrainingObjective::complete(const std::filesystem::path& /*folder*/) const {}

}  // namespace reprise
