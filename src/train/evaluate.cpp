#include "train/evaluate.h"

#include "train/metric_sums.h"

#include <reprise/autocast.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace reprise {

Batch collate_examples(const Dataset& data,
                       const std::vector<int64_t>& indices,
                       const CollateOptions& options) {
  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (const int64_t index : indices) {
    examples.push_back(data.at(index));
  }
  auto batch = collate(examples, options);
  batch.indices = indices;
  return batch;
}

Json evaluate(const EvaluationJob& job, const TrainerOptions& options, const World& world) {
  const auto start = std::chrono::steady_clock::now();
  Model& model = job.objective.model();
  model.eval();
  job.objective.begin_evaluation();
  const AutocastScope autocast(
      model.device().type(), options.autocast.value_or(at::kFloat), options.autocast.has_value());
  MetricSums metrics;
  double loss = 0;
  double weight = 0;
  without_checkpointing("evaluation", [&] {
    for (int64_t first = 0; first < job.data.size(); first += job.batch_size) {
      std::vector<int64_t> indices(
          static_cast<size_t>(std::min(job.batch_size, job.data.size() - first)));
      std::iota(indices.begin(), indices.end(), first);
      const auto batch =
          to_device(collate_examples(job.data, indices, job.collate), model.device());
      const double own = job.objective.weight(batch);
      if (own <= 0) {
        continue;  // all of its labels were cut off
      }
      // With the batch's own weight as the total, the part is the batch's mean.
      const auto result = job.objective.loss(batch, StepContext{own, nullptr, true});
      loss += result.part.item<double>() * own;
      weight += own;
      metrics.add(result.metrics);
    }
  });
  weight = world.sum(weight);
  TORCH_CHECK(weight > 0, "[train] no token of the evaluation data is counted.");
  Json record{{"eval_loss", world.sum(loss) / weight}};
  metrics.write_to(record, world, "eval_");
  record["eval_ms"] =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return record;
}

}  // namespace reprise
