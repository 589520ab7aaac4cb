// AdamW, RMSprop and SGD with the same operators in the same order as torch.optim, and Lion with
// those of bitsandbytes.
#include "optim/chunked_update.h"
#include "optim/elementwise_rule.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

class AdamW final : public ElementwiseRule {
 public:
  explicit AdamW(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> names = {"exp_avg", "exp_avg_sq"};
    return names;
  }

  void apply(const Chunk& chunk, double learning_rate) const override {
    at::_fused_adamw_(chunk.values,
                      chunk.grads,
                      chunk.state[0],
                      chunk.state[1],
                      /*max_exp_avg_sqs=*/{},
                      chunk.steps,
                      learning_rate,
                      options_.beta1,
                      options_.beta2,
                      chunk.weight_decay,
                      options_.epsilon,
                      /*amsgrad=*/false,
                      /*maximize=*/false);
  }

 private:
  OptimizerOptions options_;
};

class Lion final : public ElementwiseRule {
 public:
  explicit Lion(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> names = {"exp_avg"};
    return names;
  }

  int64_t temporaries() const override { return 1; }

  void apply(const Chunk& chunk, double learning_rate) const override {
    const std::vector<at::Tensor>& averages = chunk.state[0];
    if (chunk.weight_decay > 0) {
      at::_foreach_mul_(chunk.values, 1 - learning_rate * chunk.weight_decay);
    }
    const std::vector<at::Tensor> updates = at::_foreach_mul(averages, options_.beta1);
    at::_foreach_add_(updates, chunk.grads, 1 - options_.beta1);
    at::_foreach_sign_(updates);
    at::_foreach_add_(chunk.values, updates, -learning_rate);
    at::_foreach_mul_(averages, options_.beta2);
    at::_foreach_add_(averages, chunk.grads, 1 - options_.beta2);
  }

 private:
  OptimizerOptions options_;
};

class RmsProp final : public ElementwiseRule {
 public:
  explicit RmsProp(const OptimizerOptions& options)
      : options_(options), momentum_(options.momentum.value_or(0)) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> plain = {"square_avg"};
    static const std::vector<std::string> with_momentum = {"square_avg", "momentum_buffer"};
    return momentum_ > 0 ? with_momentum : plain;
  }

  // Roots, and gradients with weight decay: LibTorch has no fused RMSprop.
  int64_t temporaries() const override { return options_.weight_decay > 0 ? 2 : 1; }

  void apply(const Chunk& chunk, double learning_rate) const override {
    const std::vector<at::Tensor> grads =
        chunk.weight_decay == 0 ? chunk.grads
                                : at::_foreach_add(chunk.grads, chunk.values, chunk.weight_decay);
    at::_foreach_mul_(chunk.state[0], options_.alpha);
    at::_foreach_addcmul_(chunk.state[0], grads, grads, 1 - options_.alpha);
    const std::vector<at::Tensor> roots = at::_foreach_sqrt(chunk.state[0]);
    at::_foreach_add_(roots, options_.epsilon);
    if (momentum_ > 0) {
      at::_foreach_mul_(chunk.state[1], momentum_);
      at::_foreach_addcdiv_(chunk.state[1], grads, roots);
      at::_foreach_add_(chunk.values, chunk.state[1], -learning_rate);
    } else {
      at::_foreach_addcdiv_(chunk.values, grads, roots, -learning_rate);
    }
  }

 private:
  OptimizerOptions options_;
  double momentum_;
};

class Sgd final : public ElementwiseRule {
 public:
  explicit Sgd(const OptimizerOptions& options) : momentum_(options.momentum.value_or(0)) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> none;
    static const std::vector<std::string> with_momentum = {"momentum_buffer"};
    return momentum_ > 0 ? with_momentum : none;
  }

  // torch.optim initialises the buffer with the first gradient. Without dampening, a buffer of
  // zeros becomes the same in the first step, so there is no need to track which step is the first.
  void apply(const Chunk& chunk, double learning_rate) const override {
    at::_fused_sgd_(chunk.values,
                    chunk.grads,
                    momentum_ > 0 ? at::TensorList(chunk.state[0]) : at::TensorList(),
                    chunk.weight_decay,
                    momentum_,
                    learning_rate,
                    /*dampening=*/0,
                    /*nesterov=*/false,
                    /*maximize=*/false,
                    /*is_first_step=*/false);
  }

 private:
  double momentum_;
};

}  // namespace

StateSpec state_like(const TensorPart& part, std::string name) {
  const auto dtype = part.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {std::move(name), dtype, part.shape, part.begin, part.values.numel()};
}

std::vector<StateSpec> ElementwiseRule::state_of(const TensorPart& part) const {
  std::vector<StateSpec> specs;
  for (const std::string& name : state_names()) {
    specs.push_back(state_like(part, name));
  }
  return specs;
}

void ElementwiseRule::step(const std::vector<const ParameterState*>& parameters,
                           double learning_rate) const {
  ChunkedUpdate pass(*this, learning_rate);
  for (const ParameterState* state : parameters) {
    pass.add(*state);
  }
  pass.finish();
}

int64_t ElementwiseRule::update_bytes(const std::vector<const ParameterState*>& parameters) const {
  int64_t elements = 0, width = 0, casts = 0;
  for (const ParameterState* state : parameters) {
    elements += state->parameter.numel();
    width = std::max<int64_t>(width, state->value().element_size());
    casts = state->master.defined() ? 1 : casts;
  }
  return std::min(elements, kChunkElements) * width * (temporaries() + casts);
}

std::unique_ptr<const UpdateRule> make_adamw(const OptimizerOptions& options) {
  return std::make_unique<AdamW>(options);
}

std::unique_ptr<const UpdateRule> make_lion(const OptimizerOptions& options) {
  return std::make_unique<Lion>(options);
}

std::unique_ptr<const UpdateRule> make_rmsprop(const OptimizerOptions& options) {
  return std::make_unique<RmsProp>(options);
}

std::unique_ptr<const UpdateRule> make_sgd(const OptimizerOptions& options) {
  return std::make_unique<Sgd>(options);
}

}  // namespace reprise
