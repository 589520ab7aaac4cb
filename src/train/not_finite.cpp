#include "train/not_finite.h"

#include "train/evaluate.h"

#include <reprise/parallel/spread.h>

#include <ATen/ATen.h>

#include <cmath>

namespace reprise {

namespace {

bool is_finite_alone(const SuspectRows& suspects, int64_t index) {
  const auto batch = to_device(collate_examples(suspects.data, {index}, suspects.collate),
                               suspects.objective.model().device());
  const double weight = suspects.objective.weight(batch);
  try {
    return weight <= 0 ||
           std::isfinite(suspects.objective.loss(batch, StepContext{weight}).part.item<double>());
  } catch (const c10::Error&) {
    return true;  // an objective that compares rows cannot tell from one
  }
}

// A process may pass the model's held parameters alone, but not a reference or a teacher that is
// spread over processes too.
bool can_search(const TrainingObjective& objective) {
  const auto* spread = spread_of(objective.model());
  return spread == nullptr || spread->strategy() != Parallel::Fsdp || objective.frozen_bytes() == 0;
}

}  // namespace

std::string describe_not_finite(const SuspectRows& suspects, const std::vector<int64_t>& indices) {
  const bool searches = can_search(suspects.objective);
  std::string guilty;
  std::string all;
  without_checkpointing("the search for a bad row", [&] {
    for (const int64_t index : indices) {
      const auto example = suspects.data.at(index);
      const std::string name = suspects.data.place_name(example.place);
      all += (all.empty() ? "" : ", ") + name;
      if (searches && !is_finite_alone(suspects, index)) {
        guilty += (guilty.empty() ? "" : ", ") + name;
      }
    }
  });
  const std::string where = guilty.empty() ? "of the micro-batch with rows " + all +
                                                 (searches ? " (no row gives it alone)" : "")
                                           : "of row " + guilty;
  return "the loss " + where +
         " is not finite. Training stops; the last checkpoint is as it was. A lower "
         "--learning_rate, --warmup_steps or a wider --dtype help when the data is sound.";
}

}  // namespace reprise
