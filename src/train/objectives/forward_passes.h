// Forward passes that the objectives share, and helpers for their metrics.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/loss/head.h>
#include <reprise/model/model.h>
#include <reprise/train/objective.h>

#include <ATen/core/Tensor.h>

#include <functional>

namespace reprise {

ModelInput input_of(const TokenBatch& batch, AdapterUse adapters = AdapterUse::Trained);

/// The token that each position predicts: labels shifted left by one, the last position ignored.
/// Has the shape (B, T) of the hidden states, so these need not be sliced.
at::Tensor targets_of(const at::Tensor& labels);
/// The same for a batch's labels, with the counts that the host already has.
Targets targets_of(const TokenBatch& batch);

/// Hidden states of the trained forward pass; calls context.forward_done().
at::Tensor trained_hidden(Model& model, const TokenBatch& batch, const StepContext& context);

/// Log-probabilities of `targets` in a frozen pass: no gradients, dropout or checkpointed regions.
/// `what` names the pass in messages.
TokenValues frozen_logprobs(const char* what,
                            Model& model,
                            const TokenBatch& batch,
                            const Targets& targets,
                            AdapterUse adapters,
                            const TokenRequests& requests = {});

/// Runs any work as a frozen pass.
void frozen_pass(const char* what, Model& model, const std::function<void()>& pass);

/// Bytes of all parameters, trained or not, of buffers and of quantised weights, that this process
/// holds between passes.
REPRISE_API int64_t parameter_bytes(const Model& model);

/// Number of labelled tokens. Waits for the device if the collator did not count them.
double trained_tokens(const Batch& batch);

/// A metric that is a mean over `weight` elements, from their sum on any device. These functions do
/// not wait for the device.
Metric metric_of(const char* name,
                 const at::Tensor& sum,
                 double weight,
                 MetricMean mean = MetricMean::OfMicroBatches);
/// A metric that is the mean of a tensor's elements.
Metric mean_metric(const char* name, const at::Tensor& values);

/// A metric that is the mean over the tokens where `mask` is true. values and mask are (B, T).
Metric token_metric(const char* name, const at::Tensor& values, const at::Tensor& mask);

}  // namespace reprise
