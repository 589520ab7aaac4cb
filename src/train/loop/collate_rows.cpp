#include "train/loop/collate_rows.h"

namespace reprise {

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

int64_t tokens_of_row(const Batch& batch) {
  return batch.main.document_ids.defined()
             ? batch.main.tokens / static_cast<int64_t>(batch.rows.size())
             : batch.main.input_ids.size(1);
}

}  // namespace reprise
