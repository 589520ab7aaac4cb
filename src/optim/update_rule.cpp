// AdamW, RMSprop and SGD with the same operators in the same order as torch.optim.
#include "optim/update_rule.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <c10/util/Exception.h>

namespace reprise {
namespace {

class AdamW final : public UpdateRule {
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

class RmsProp final : public UpdateRule {
 public:
  explicit RmsProp(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> plain = {"square_avg"};
    static const std::vector<std::string> with_momentum = {"square_avg", "momentum_buffer"};
    return options_.momentum > 0 ? with_momentum : plain;
  }

  // LibTorch has no fused RMSprop. The temporaries are as large as the chunk, not the model.
  void apply(const Chunk& chunk, double learning_rate) const override {
    const std::vector<at::Tensor> grads =
        chunk.weight_decay == 0 ? chunk.grads
                                : at::_foreach_add(chunk.grads, chunk.values, chunk.weight_decay);
    at::_foreach_mul_(chunk.state[0], options_.alpha);
    at::_foreach_addcmul_(chunk.state[0], grads, grads, 1 - options_.alpha);
    const std::vector<at::Tensor> roots = at::_foreach_sqrt(chunk.state[0]);
    at::_foreach_add_(roots, options_.epsilon);
    if (options_.momentum > 0) {
      at::_foreach_mul_(chunk.state[1], options_.momentum);
      at::_foreach_addcdiv_(chunk.state[1], grads, roots);
      at::_foreach_add_(chunk.values, chunk.state[1], -learning_rate);
    } else {
      at::_foreach_addcdiv_(chunk.values, grads, roots, -learning_rate);
    }
  }

 private:
  OptimizerOptions options_;
};

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}

  const std::vector<std::string>& state_names() const override {
    static const std::vector<std::string> none;
    static const std::vector<std::string> with_momentum = {"momentum_buffer"};
    return options_.momentum > 0 ? with_momentum : none;
  }

  // torch.optim initialises the buffer with the first gradient. Without dampening, a buffer of
  // zeros becomes the same in the first step, so there is no need to track which step is the first.
  void apply(const Chunk& chunk, double learning_rate) const override {
    at::_fused_sgd_(chunk.values,
                    chunk.grads,
                    options_.momentum > 0 ? at::TensorList(chunk.state[0]) : at::TensorList(),
                    chunk.weight_decay,
                    options_.momentum,
                    learning_rate,
                    /*dampening=*/0,
                    /*nesterov=*/false,
                    /*maximize=*/false,
                    /*is_first_step=*/false);
  }

 private:
  OptimizerOptions options_;
};

// Must be below 1: an average with decay 1 would never change.
void check_share(const char* name, double value) {
  TORCH_CHECK(
      value >= 0 && value < 1, "[optim] ", name, ": expected at least 0 and below 1, got ", value);
}

void check_not_negative(const char* name, double value) {
  TORCH_CHECK(value >= 0, "[optim] ", name, ": expected at least 0, got ", value);
}

}  // namespace

std::unique_ptr<const UpdateRule> make_update_rule(const OptimizerOptions& options) {
  check_not_negative("epsilon", options.epsilon);
  check_not_negative("weight_decay", options.weight_decay);
  check_not_negative("momentum", options.momentum);
  switch (options.kind) {
    case OptimizerKind::AdamW:
      check_share("beta1", options.beta1);
      check_share("beta2", options.beta2);
      TORCH_CHECK(options.momentum == 0,
                  "[optim] momentum is for RMSprop and SGD; AdamW's is beta1. Expected 0, got ",
                  options.momentum);
      return std::make_unique<AdamW>(options);
    case OptimizerKind::RmsProp:
      check_share("alpha", options.alpha);
      return std::make_unique<RmsProp>(options);
    case OptimizerKind::Sgd:
      return std::make_unique<Sgd>(options);
  }
  TORCH_INTERNAL_ASSERT(false, "[optim] no rule for kind ", static_cast<int>(options.kind));
}

}  // namespace reprise
