#include "train/evaluate.h"

#include "train/metric_sums.h"

#include <reprise/autocast.h>
#include <reprise/train/out_of_memory.h>

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <string>

namespace reprise {

int64_t tokens_of_row(const Batch& batch) {
  return batch.main.document_ids.defined()
             ? batch.main.tokens / static_cast<int64_t>(batch.rows.size())
             : batch.main.input_ids.size(1);
}

namespace {

std::vector<Example> examples_at(const Dataset& data, const std::vector<int64_t>& indices) {
  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (const int64_t index : indices) {
    examples.push_back(data.at(index));
  }
  return examples;
}

}  // namespace

Batch collate_examples(const Dataset& data,
                       const std::vector<int64_t>& indices,
                       const CollateOptions& options) {
  auto batch = collate(examples_at(data, indices), options);
  batch.indices = indices;
  return batch;
}

Batch collate_rows(const Dataset& data, const MicroBatchRows& rows, const CollateOptions& options) {
  if (!options.mismatch) {
    return collate_examples(data, rows.examples, options);
  }
  const Example before = data.at(rows.before);
  const Example after = data.at(rows.after);
  auto batch = collate(examples_at(data, rows.examples), options, {&before, &after});
  batch.indices = rows.examples;
  return batch;
}

namespace {

/// Sums over the batches of an evaluation.
struct Sums {
  MetricSums metrics;
  double loss = 0;
  double weight = 0;
};

// A batch that counts nothing, since all of its labels were cut off, is a filler too: other
// processes may compute theirs together with it.
void add_batch(TrainingObjective& objective, const Batch& batch, bool is_filler, Sums& sums) {
  const double total = objective.weight(batch);
  StepContext context{.total_weight = 1, .is_evaluation = true, .is_filler = true};
  if (is_filler || total <= 0) {
    objective.loss(batch, context);
    return;
  }
  // With the batch's own weight as the total, the part is the batch's mean.
  context.total_weight = total;
  context.is_filler = false;
  const auto result = objective.loss(batch, context);
  const double weight = objective.evaluation_weight(batch);
  sums.loss += result.part.item<double>() * weight;
  sums.weight += weight;
  sums.metrics.add(result.metrics);
}

// JSON has no NaN: without a note, a figure of metrics.jsonl would be null for no visible reason.
void note_what_is_no_number(Json& record) {
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
    // An evaluation has mismatched rows of its batch only, however many evaluate.
    const auto batch = collate_examples(job.data, rows.examples, job.collate);
    const auto pass = [&, counts_nothing = rows.is_filler] {
      add_batch(job.objective, to_device(batch, model.device()), counts_nothing, sums);
    };
    explaining_memory([&] { without_checkpointing("evaluation", pass); },
                      [&](const std::string& error) {
                        const PassDemand demand{"the evaluation",
                                                "--per_device_eval_batch_size",
                                                static_cast<int64_t>(batch.rows.size()),
                                                tokens_of_row(batch)};
                        return explain_out_of_memory(error, demand, model);
                      });
  }
  if (model.keeper() != nullptr) {
    model.keeper()->settle();
  }
  job.objective.end_evaluation(world);
  const double weight = world.sum(sums.weight, "the weight of an evaluation");
  TORCH_CHECK(weight > 0, "[train] no token of the evaluation data is counted.");
  Json record{{"eval_loss", world.sum(sums.loss, "the loss of an evaluation") / weight}};
  sums.metrics.write_to(record, world, "eval_");
  note_what_is_no_number(record);
  record["eval_ms"] =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return record;
}

}  // namespace reprise
