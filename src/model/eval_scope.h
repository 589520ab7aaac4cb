// A scope with eval mode and without gradients. Its end restores the mode of every module.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

namespace reprise {

class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& module) {
    for (const auto& part : module.modules(/*include_self=*/false)) {
      modes_.emplace_back(part.get(), part->is_training());
    }
    modes_.emplace_back(&module, module.is_training());
    module.eval();
  }
  ~EvalScope() {
    // train() also sets all children, so parents go first: the root, which is last in the list,
    // then the order of modules().
    modes_.back().first->train(modes_.back().second);
    for (const auto& [part, was_training] : modes_) {
      if (part->is_training() != was_training) {
        part->train(was_training);
      }
    }
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  at::NoGradGuard no_grad_;
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

}  // namespace reprise
