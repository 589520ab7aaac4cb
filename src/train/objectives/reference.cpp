#include <reprise/train/reference.h>

#include "train/objectives/forward_passes.h"

#include <reprise/model/lora.h>
#include <reprise/model/quantization.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

TensorPart whole_of(const std::string& name, const at::Tensor& parameter) {
  return {name, parameter.sizes().vec(), 0, parameter.detach().view(-1)};
}

// This process's part of a parameter: all of it, unless the model is sharded over processes.
TensorPart part_of(const Model& model, const std::string& name, const at::Tensor& parameter) {
  const auto* sharded = model.sharded_parameters();
  return sharded == nullptr ? whole_of(name, parameter) : sharded->part_of(name, parameter);
}

void refresh(const Model& model) {
  if (auto* sharded = model.sharded_parameters()) {
    sharded->refresh();
  }
}

}  // namespace

Reference::Reference(std::shared_ptr<Model> model, AdapterUse adapters)
    : model_(std::move(model)), adapters_(adapters), is_own_model_(false) {}

Reference::Reference(std::shared_ptr<Model> model, std::optional<ReferenceSync> sync)
    : model_(std::move(model)), adapters_(AdapterUse::Off), is_own_model_(true), sync_(sync) {
  TORCH_CHECK(!sync || (sync->steps > 0 && sync->alpha > 0 && sync->alpha <= 1),
              "[reference] sync: expected steps of at least 1, and alpha above 0 and at most 1.");
  TORCH_CHECK(!sync || !is_quantized(*model_),
              "[reference] a quantised reference cannot follow the policy: its weights are fixed.");
  model_->eval();
  for (auto& parameter : model_->parameters()) {
    parameter.requires_grad_(false);
  }
}

Reference Reference::without_adapters(std::shared_ptr<Model> policy) {
  TORCH_CHECK(has_lora(*policy),
              "[reference] a policy without adapters changes in training: pass the reference as a "
              "model of its own.");
  return {std::move(policy), AdapterUse::Reference};
}

Reference Reference::current_policy(std::shared_ptr<Model> policy) {
  return {std::move(policy), AdapterUse::Trained};
}

TokenValues Reference::logprobs(const TokenBatch& batch,
                                const Targets& targets,
                                const TokenRequests& requests) const {
  return frozen_logprobs("the reference", *model_, batch, targets, adapters_, requests);
}

void Reference::move_to(const at::Device& device) const {
  if (is_own_model_ && model_->device() != device) {
    model_->to(device);
  }
}

void Reference::check_sync(const Model& policy) const {
  if (!sync_) {
    return;
  }
  const auto own = model_->named_parameters();
  for (const auto& item : policy.named_parameters()) {
    const auto* same = own.find(item.key());
    TORCH_CHECK(same != nullptr || !item.value().requires_grad(),
                "[reference] a reference that follows the policy (`sync_ref_model`) must have all "
                "trained parameters of the policy, but it has no tensor ",
                item.key());
  }
  const auto theirs = policy.named_parameters();
  for (const auto& item : own) {
    const auto* same = theirs.find(item.key());
    TORCH_CHECK(same != nullptr && same->sizes() == item.value().sizes(),
                "[reference] a reference that follows the policy (`sync_ref_model`) must have "
                "the same shapes, but its ",
                item.key(),
                " is ",
                item.value().sizes(),
                ", and the policy's ",
                same == nullptr ? "is missing" : c10::str(same->sizes()),
                ". Use a reference of the same architecture, or do not sync it.");
  }
}

void Reference::sync(const Model& policy, int64_t step) {
  if (!sync_ || step % sync_->steps != 0) {
    return;
  }
  const at::NoGradGuard no_grad;
  const auto from = policy.named_parameters();
  for (const auto& item : model_->named_parameters()) {
    const auto own = part_of(*model_, item.key(), item.value());
    // An unsharded reference implies a policy that is whole between passes: ddp, zero2.
    const auto theirs = model_->sharded_parameters() == nullptr
                            ? whole_of(item.key(), from[item.key()])
                            : part_of(policy, item.key(), from[item.key()]);
    TORCH_CHECK(
        theirs.begin == own.begin && theirs.values.numel() == own.values.numel(),
        "[reference] a reference that follows the policy (`sync_ref_model`) must be sharded "
        "over processes in the same way as the policy.");
    if (own.values.numel() > 0) {
      own.values.lerp_(theirs.values.to(own.values.options()), sync_->alpha);
    }
  }
  refresh(*model_);
}

NamedTensors Reference::state() const {
  NamedTensors state;
  if (sync_) {
    const UnshardedParameters unsharded(*model_);
    for (const auto& item : model_->named_parameters()) {
      const auto values = item.value().detach();
      state.emplace_back(
          item.key(), model_->sharded_parameters() == nullptr ? values : at::clone(values).cpu());
    }
  }
  return state;
}

void Reference::load(const TensorFile& file) {
  if (!sync_) {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const auto& item : model_->named_parameters()) {
    const auto own = part_of(*model_, item.key(), item.value());
    const auto* info = file.find(item.key());
    TORCH_CHECK(info != nullptr && info->shape == own.shape,
                file.path().string(),
                ": has no tensor ",
                item.key(),
                " of the reference's shape");
    if (const int64_t count = own.values.numel(); count > 0) {
      own.values.copy_(file.view(*info).flatten().narrow(0, own.begin, count));
    }
  }
  refresh(*model_);
}

int64_t Reference::bytes() const {
  return is_own_model_ ? parameter_bytes(*model_) : 0;
}

ReferencedObjective::ReferencedObjective(std::optional<Reference> reference)
    : reference_(std::move(reference)) {}

double ReferencedObjective::evaluation_weight(const Batch& batch) const {
  return static_cast<double>(batch.rows.size());
}

void ReferencedObjective::use_precomputed(at::Tensor train, at::Tensor evaluation) {
  train_logps_ = std::move(train);
  evaluation_logps_ = std::move(evaluation);
  reference_.reset();
}

void ReferencedObjective::after_step(int64_t step) {
  if (reference_) {
    reference_->sync(model(), step);
  }
}

NamedTensors ReferencedObjective::state() const {
  return reference_ ? reference_->state() : NamedTensors();
}

void ReferencedObjective::load(const TensorFile& file) {
  if (reference_) {
    reference_->load(file);
  }
}

int64_t ReferencedObjective::frozen_bytes() const {
  return reference_ ? reference_->bytes() : 0;
}

at::Tensor ReferencedObjective::logps_of_reference(const Batch& batch,
                                                   const StepContext& context) const {
  if (reference_) {
    // Not in the constructor, where model() cannot be called yet.
    if (!is_reference_checked_) {
      reference_->check_sync(model());
      is_reference_checked_ = true;
    }
    return reference_logps(batch);
  }
  const auto& table = context.is_evaluation ? evaluation_logps_ : train_logps_;
  TORCH_CHECK(table.defined() && batch.indices.size() == batch.rows.size(),
              "[reference] this objective needs a reference, or precomputed log-probabilities.");
  const auto indices = at::tensor(batch.indices, at::kLong);
  return table.index_select(0, indices).to(batch.main.input_ids.device());
}

}  // namespace reprise
