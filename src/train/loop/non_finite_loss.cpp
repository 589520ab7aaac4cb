#include "train/loop/non_finite_loss.h"

#include "train/loop/collate_rows.h"

#include <reprise/parallel/shard.h>
#include "model/without_checkpointing.h"

#include <ATen/ATen.h>

#include <cmath>

namespace reprise {

namespace {

bool is_finite_alone(const NonFiniteSearch& search, int64_t index) {
  const auto batch = to_device(collate_examples(search.data, {index}, search.collate),
                               search.objective.model().device());
  const double weight = search.objective.weight(batch);
  try {
    return weight <= 0 ||
           std::isfinite(search.objective.loss(batch, StepContext{weight}).part.item<double>());
  } catch (const c10::Error&) {
    return true;  // an objective that compares rows may refuse a single one
  }
}

// The trained model's parameters are gathered, but those of a sharded reference or teacher are not:
// one process alone cannot run a forward pass of it.
bool can_search(const TrainingObjective& objective) {
  const auto* sharded = sharded_model_of(objective.model());
  return sharded == nullptr || sharded->strategy() != Parallel::Fsdp ||
         objective.frozen_bytes() == 0;
}

}  // namespace

std::string describe_non_finite_loss(const NonFiniteSearch& search,
                                     const std::vector<int64_t>& indices) {
  const bool searches = can_search(search.objective);
  std::string bad;
  std::string all;
  without_checkpointing("the search for a bad row", [&] {
    for (const int64_t index : indices) {
      const auto example = search.data.at(index);
      const std::string name = search.data.location_name(example.location);
      all += (all.empty() ? "" : ", ") + name;
      if (searches && !is_finite_alone(search, index)) {
        bad += (bad.empty() ? "" : ", ") + name;
      }
    }
  });
  const std::string where = bad.empty() ? "of the micro-batch with rows " + all +
                                              (searches ? " (no single row causes it)" : "")
                                        : "of row " + bad;
  return "the loss " + where +
         " is not finite. Training stops; the last checkpoint is unchanged. If the data is fine, "
         "try a lower `learning_rate`, more `warmup_steps` or a wider `dtype`.";
}

}  // namespace reprise
