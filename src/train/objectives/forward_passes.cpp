#include "train/objectives/forward_passes.h"

#include "model/eval_scope.h"

#include "model/without_checkpointing.h"

#include <reprise/model/quantization.h>

#include <ATen/ATen.h>

namespace reprise {

ModelInput input_of(const TokenBatch& batch, AdapterUse adapters) {
  return {.input_ids = batch.input_ids,
          .attention_mask = batch.attention_mask,
          .position_ids = batch.position_ids,
          .document_ids = batch.document_ids,
          .document_starts = batch.document_starts,
          .longest_document = batch.longest_document,
          .adapters = adapters};
}

at::Tensor targets_of(const at::Tensor& labels) {
  return at::constant_pad_nd(labels, {0, 1}, kIgnoredLabel).slice(1, 1).contiguous();
}

Targets targets_of(const TokenBatch& batch) {
  return {targets_of(batch.labels), batch.targets};
}

at::Tensor trained_hidden(Model& model, const TokenBatch& batch, const StepContext& context) {
  auto hidden = model.hidden_states(input_of(batch));
  context.forward_done();
  return hidden;
}

void frozen_pass(const char* what, Model& model, const std::function<void()>& pass) {
  const EvalScope no_dropout(model);
  without_checkpointing(what, pass);
  if (model.sharded_parameters() != nullptr) {
    model.sharded_parameters()->settle();
  }
}

TokenValues frozen_logprobs(const char* what,
                            Model& model,
                            const TokenBatch& batch,
                            const Targets& targets,
                            AdapterUse adapters,
                            const TokenRequests& requests) {
  TokenValues values;
  frozen_pass(what, model, [&] {
    values = token_logprobs(model.hidden_states(input_of(batch, adapters)),
                            model.linear_head(adapters),
                            targets,
                            requests);
  });
  return values;
}

int64_t parameter_bytes(const Model& model) {
  if (const auto* sharded = model.sharded_parameters()) {
    return sharded->bytes() + quantized_bytes(model);
  }
  int64_t bytes = quantized_bytes(model);
  for (const auto& parameter : model.parameters()) {
    bytes += static_cast<int64_t>(parameter.nbytes());
  }
  for (const auto& buffer : model.buffers()) {  // what adapters subtract
    bytes += static_cast<int64_t>(buffer.nbytes());
  }
  return bytes;
}

double trained_tokens(const Batch& batch) {
  if (batch.main.targets) {
    return static_cast<double>(batch.main.targets->count);
  }
  return batch.main.labels.slice(1, 1).ne(kIgnoredLabel).sum().item<double>();
}

Metric metric_of(const char* name, const at::Tensor& sum, double weight, MetricMean mean) {
  return {name, sum.detach(), at::scalar_tensor(weight, at::kDouble), mean};
}

Metric mean_metric(const char* name, const at::Tensor& values) {
  return metric_of(name, values.detach().sum(at::kDouble), static_cast<double>(values.numel()));
}

Metric token_metric(const char* name, const at::Tensor& values, const at::Tensor& mask) {
  return {name,
          values.detach().masked_fill(mask.logical_not(), 0).sum(),
          mask.sum(),
          MetricMean::OfMicroBatches};
}

}  // namespace reprise
