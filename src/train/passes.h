// Passes of a model over a batch, as the objectives need them.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/loss/head.h>
#include <reprise/model/model.h>
#include <reprise/train/objective.h>

#include <ATen/core/Tensor.h>

#include <functional>

namespace reprise {

ModelInput input_of(const TokenBatch& batch, AdapterUse adapters = AdapterUse::Trained);

/// What each position predicts: labels moved by one place to the left, the last ignored. (B, T), so
/// that hidden states need not be cut.
at::Tensor targets_of(const at::Tensor& labels);
/// The same of a batch's own labels, with what the host knows of them.
Targets targets_of(const TokenBatch& batch);

/// Hidden states of the pass that is trained; the meter learns that forward is over.
at::Tensor trained_hidden(Model& model, const TokenBatch& batch, const StepContext& context);

/// Values at `targets` of a frozen pass: no gradients, no dropout, no checkpointed region. `what`
/// is for messages.
TokenValues frozen_logprobs(const char* what,
                            Model& model,
                            const TokenBatch& batch,
                            const Targets& targets,
                            AdapterUse adapters,
                            const TokenRequests& requests = {});

/// The same for any work.
void frozen_pass(const char* what, Model& model, const std::function<void()>& pass);

/// Of all parameters, trained or not, that this process has between passes.
int64_t parameter_bytes(const Model& model);

/// How many tokens of a batch are trained on; waits for its device if nobody counted them.
double trained_tokens(const Batch& batch);

/// A metric that is a mean over `weight` things, from its sum on any device. None of these waits
/// for the device.
Figure metric_of(const char* name, const at::Tensor& sum, double weight);
/// A metric that is the mean of a tensor's elements.
Figure mean_metric(const char* name, const at::Tensor& values);

/// A metric that is the mean over the tokens where `mask` is true. values and mask (B, T).
Figure token_metric(const char* name, const at::Tensor& values, const at::Tensor& mask);

}  // namespace reprise
