#include "train/budget/meta_run.h"

#include "model/families/architecture.h"
#include "optim/host_gradients.h"
#include "train/objectives/forward_passes.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>
#include <reprise/model/quantization.h>
#include <reprise/train/dpo.h>
#include <reprise/train/kd.h>
#include <reprise/train/kto.h>
#include <reprise/train/rm.h>
#include <reprise/train/sft.h>
#include "parallel/shard_bytes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace reprise {

namespace {

bool has_pairs(Objective objective) {
  return objective == Objective::Rm || objective == Objective::Dpo;
}

bool has_reference(Objective objective) {
  return objective == Objective::Dpo || objective == Objective::Kto;
}

at::Tensor numbers(at::IntArrayRef sizes, at::ScalarType type) {
  return at::empty(sizes, at::device(at::kMeta).dtype(type));
}

/// Rows without padding whose tokens are all trained.
TokenBatch full_rows(int64_t rows, int64_t length) {
  TokenBatch batch;
  batch.input_ids = numbers({rows, length}, at::kLong);
  batch.attention_mask = numbers({rows, length}, at::kLong);
  batch.labels = numbers({rows, length}, at::kLong);
  batch.document_starts = numbers({rows + 1}, at::kInt);
  batch.longest_document = length;
  batch.tokens = rows * length;
  batch.targets = TargetSummary{.count = rows * (length - 1)};
  return batch;
}

}  // namespace

MetaRun::MetaRun(const ModelPlanRequest& request) : request_(request), scope_(request.device) {
  model_ = policy();
  model_->train();
  model_->enable_checkpointing();
  if (request.objective == Objective::Ppo) {
    critic_ = model_of(critic_config(), HeadKind::Value);
  }
  make_objective();
  request.world ? count_shard_bytes() : count_bytes();
}

std::shared_ptr<Model> MetaRun::model_of(const ModelConfig& config, HeadKind head) const {
  ModelConfig own = config;
  if (head == HeadKind::Score) {
    own.labels = 1;
  }
  const auto quantization = own.quantization;
  own.quantization.reset();
  auto model =
      std::make_shared<Model>(std::move(own), head, at::device(at::kMeta).dtype(request_.dtype));
  if (quantization) {
    quantize_model(*model, *quantization);
  }
  return model;
}

// All of a critic is trained, so it is not quantised.
ModelConfig MetaRun::critic_config() const {
  ModelConfig config = request_.config;
  config.quantization.reset();
  return config;
}

std::shared_ptr<Model> MetaRun::policy() const {
  const bool is_reward = request_.objective == Objective::Rm;
  auto model = model_of(request_.config, is_reward ? HeadKind::Score : HeadKind::CausalLm);
  if (request_.lora) {
    add_lora(*model, *request_.lora, /*seed=*/0);
  }
  return model;
}

void MetaRun::make_objective() {
  std::optional<Reference> reference;
  if (has_reference(request_.objective)) {
    reference = request_.lora ? Reference::without_adapters(model_)
                              : Reference(model_of(request_.config, HeadKind::CausalLm));
  }
  switch (request_.objective) {
    case Objective::Sft:
      objective_ = make_sft(model_);
      return;
    case Objective::Rm:
      objective_ = make_rm(model_, {.pooling = Pooling::LastAttended, .use_margin = false});
      return;
    case Objective::Dpo:
      objective_ = make_dpo(model_, std::move(reference));
      return;
    case Objective::Kto:
      objective_ = make_kto(model_, std::move(reference));
      return;
    case Objective::Kd:
      TORCH_CHECK(request_.teacher, "[plan] kd needs the configuration of a teacher.");
      objective_ = make_kd(model_, model_of(*request_.teacher, HeadKind::CausalLm));
      return;
    case Objective::Grpo:
    case Objective::Ppo:
      return;
    case Objective::Prm:
      TORCH_INTERNAL_ASSERT(false, "refused by plan_model");
  }
}

void MetaRun::count_bytes() {
  const auto add_trained = [&](const Model& model) {
    const auto trained = trained_parameters(model);
    int64_t gradients = 0;
    for (const auto& [name, parameter] : trained) {
      gradients += static_cast<int64_t>(parameter.nbytes());
    }
    auto optimizer = Optimizer::make(trained, request_.optimizer);
    const bool leave = optimizer->host_gradients() != nullptr;
    standing_.gradients += leave ? 0 : gradients;
    standing_.optimizer += optimizer->bytes() - optimizer->host_bytes();
    standing_.host += optimizer->host_bytes() + (leave ? gradients : 0);
    standing_.update = std::max(standing_.update, optimizer->update_bytes());
    placed_.gradients += gradients;
    placed_.state += optimizer->bytes();
    if (leave && optimizer_ == nullptr) {
      optimizer_ = std::move(optimizer);
    }
  };
  placed_.accumulation = request_.accumulation;
  standing_.parameters = parameter_bytes(*model_);
  add_trained(*model_);
  if (objective_ != nullptr) {
    standing_.frozen += objective_->frozen_bytes();
  }
  if (critic_ != nullptr) {
    // Also the reference model of the KL penalty. With LoRA that is the policy without adapters.
    standing_.frozen += parameter_bytes(*critic_) + (request_.lora ? 0 : standing_.parameters);
    add_trained(*critic_);
  }
}

// Makes its own models, because a prediction consumes them.
void MetaRun::count_shard_bytes() {
  const ShardPlacement place{.size = request_.world->size,
                             .options = {.strategy = request_.world->strategy},
                             .optimizer = request_.optimizer,
                             .accumulation = request_.accumulation};
  const auto add = [&](const std::shared_ptr<Model>& model, int64_t& parameters) {
    const auto bytes = predict_shard_bytes(*model, place);
    parameters += bytes.parameters + quantized_bytes(*model);
    standing_.gradients += bytes.gradients;
    standing_.optimizer += bytes.optimizer;
    // Only one model computes at a time.
    standing_.gathered = std::max(standing_.gathered, bytes.gathered);
    standing_.reductions = std::max(standing_.reductions, bytes.reductions);
  };
  const auto add_frozen = [&](const ModelConfig& config) {
    const auto model = model_of(config, HeadKind::CausalLm);
    for (auto& parameter : model->parameters()) {
      parameter.requires_grad_(false);
    }
    add(model, standing_.frozen);
  };
  add(policy(), standing_.parameters);
  const bool is_ppo = request_.objective == Objective::Ppo;
  if (is_ppo) {
    add(model_of(critic_config(), HeadKind::Value), standing_.frozen);
  }
  if ((is_ppo || has_reference(request_.objective)) && !request_.lora) {
    add_frozen(request_.config);
  }
  if (request_.teacher) {
    add_frozen(*request_.teacher);
  }
}

int64_t MetaRun::tokens(int64_t rows, int64_t length) const {
  return rows * length * (has_pairs(request_.objective) ? 2 : 1);
}

int64_t MetaRun::most_positions() const {
  const bool has_learned = !architecture_of(request_.config).positions.empty();
  return has_learned ? request_.config.max_positions : std::numeric_limits<int64_t>::max();
}

// An update reads gradients and state, and writes state and parameters.
double MetaRun::update_ms() const {
  constexpr double kMilliseconds = 1e3;
  const double bytes =
      static_cast<double>(standing_.gradients) * 2 + static_cast<double>(standing_.optimizer) * 2;
  const double on_device = bytes / request_.device.memory_speed;
  // Both directions of the link are used at once, and more comes in than goes out. Gradients leave
  // while backward computes; a sum that comes back is waited for.
  const auto& host = request_.optimizer.host;
  const auto gradients = static_cast<double>(host.gradients ? placed_.gradients : 0);
  const double in = gradients + static_cast<double>(host.state ? placed_.state : 0);
  const double sums = gradients * static_cast<double>(request_.accumulation - 1);
  const double link = std::max(1.0, request_.device.link_speed);
  return (std::max(on_device, in / link) + sums / link) * kMilliseconds;
}

Batch MetaRun::batch_of(int64_t rows, int64_t length) const {
  Batch batch;
  batch.main = full_rows(has_pairs(request_.objective) ? 2 * rows : rows, length);
  batch.rows.resize(static_cast<size_t>(rows));
  if (request_.objective == Objective::Kto) {
    batch.mismatched = full_rows(rows, length);
    batch.desirable = numbers({rows}, at::kBool);
  }
  return batch;
}

void MetaRun::run(const Batch& batch) {
  const auto loss = [&] {
    const AutocastScope autocast(request_.device.type,
                                 request_.autocast.value_or(at::kFloat),
                                 request_.autocast.has_value());
    if (objective_ != nullptr) {
      return objective_->loss(batch, {.total_weight = 1}).part;
    }
    // The policy of grpo and ppo: what follows the log probabilities is small.
    const auto values = token_logprobs(trained_hidden(*model_, batch.main, {}),
                                       model_->linear_head(),
                                       targets_of(batch.main),
                                       {.entropy = true});
    return values.logprobs.sum();
  };
  std::optional<HostGradients::Rehearsal> rehearsal;
  if (optimizer_ != nullptr) {
    rehearsal.emplace(*optimizer_->host_gradients(), /*adds=*/request_.accumulation > 1);
  }
  loss().backward();
}

planning::PredictedStep MetaRun::step(int64_t rows, int64_t length) {
  const Batch batch = batch_of(rows, length);
  return planning::predict_step([&] { run(batch); }, request_.device);
}

}  // namespace reprise
