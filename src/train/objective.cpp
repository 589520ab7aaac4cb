#include <reprise/train/objective.h>

#include <reprise/stats.h>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace reprise {

TrainingObjective::~TrainingObjective() = default;

double TrainingObjective::weight(const Batch& /*batch*/) const {
  return 1;
}

void TrainingObjective::begin_evaluation() {}

void TrainingObjective::after_step(int64_t /*step*/) {}

NamedTensors TrainingObjective::state() const {
  return {};
}

void TrainingObjective::load(const SafetensorsFile& /*file*/) {}

int64_t TrainingObjective::frozen_bytes() const {
  return 0;
}

void TrainingObjective::complete(const std::filesystem::path& /*folder*/) const {}

void without_checkpointing(const char* what, const std::function<void()>& pass) {
  record_checkpoint_stats(true);
  const size_t before = checkpoint_stats().total.entered;
  {
    const at::NoGradGuard no_grad;
    pass();
  }
  const size_t entered = checkpoint_stats().total.entered - before;
  TORCH_CHECK(entered == 0,
              "[checkpointing] ",
              what,
              " entered ",
              entered,
              " checkpointed regions: it needs no gradient and must not pay for them.");
}

}  // namespace reprise
