#include "train/loop/evaluate.h"

#include "train/budget/out_of_memory.h"
#include "train/loop/collate_rows.h"
#include "train/loop/metric_sums.h"

#include <reprise/autocast.h>
#include "model/without_checkpointing.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <string>

namespace reprise {

namespace {

/// Sums over the batches of an evaluation.
struct Sums {
  MetricSums metrics = MetricSums(MetricSums::Of::Evaluation);
  double loss = 0;
  double weight = 0;
};

// A batch without weight, because all of its labels were cut off, is computed as a filler: other
// processes may need it in their collectives.
void add_batch(TrainingObjective& objective, const Batch& batch, bool is_filler, Sums& sums) {
  const double total = objective.weight(batch);
  StepContext context{.total_weight = 1, .is_evaluation = true, .is_filler = true};
  if (is_filler || total <= 0) {
    objective.loss(batch, context);
    return;
  }
  // With the batch's own weight as the total, the loss is the batch's mean.
  context.total_weight = total;
  context.is_filler = false;
  const auto result = objective.loss(batch, context);
  const double weight = objective.evaluation_weight(batch);
  sums.loss += result.part.item<double>() * weight;
  sums.weight += weight;
  sums.metrics.add(result.metrics);
}

// JSON has no NaN: without the note, a null in metrics.jsonl would be unexplained.
void note_nan(Json& record) {
  std::string names;
  for (const auto& [name, value] : record.items()) {
    if (value.is_number_float() && std::isnan(value.get<double>())) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  if (!names.empty()) {
    record["eval_note"] = names + ": not a number, which is worse than every other value";
  }
}

}  // namespace

Json evaluate(const EvaluationJob& job, const TrainerOptions& options, const World& world) {
  const auto start = std::chrono::steady_clock::now();
  Model& model = job.objective.model();
  model.eval();
  job.objective.begin_evaluation();
  const AutocastScope autocast(
      model.device().type(), options.autocast.value_or(at::kFloat), options.autocast.has_value());
  Sums sums;
  for (const auto& rows : share_of_batches(job.data.size(), job.batch_size, world)) {
    // Mismatched rows come from the batch itself, so results do not depend on the processes.
    const auto batch = collate_examples(job.data, rows.examples, job.collate);
    const auto pass = [&, is_filler = rows.is_filler] {
      add_batch(job.objective, to_device(batch, model.device()), is_filler, sums);
    };
    explaining_memory([&] { without_checkpointing("evaluation", pass); },
                      [&](const std::string& error) {
                        const PassDemand demand{"the evaluation",
                                                "per_device_eval_batch_size",
                                                static_cast<int64_t>(batch.rows.size()),
                                                tokens_of_row(batch)};
                        return explain_out_of_memory(error, demand, model);
                      });
  }
  if (model.sharded_parameters() != nullptr) {
    model.sharded_parameters()->settle();
  }
  job.objective.end_evaluation(world);
  const double weight = world.sum(sums.weight, "the weight of an evaluation");
  TORCH_CHECK(weight > 0, "[train] no token of the evaluation data is counted.");
  Json record{{"eval_loss", world.sum(sums.loss, "the loss of an evaluation") / weight}};
  sums.metrics.write_to(record, world, "eval_");
  note_nan(record);
  record["eval_ms"] =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return record;
}

}  // namespace reprise
