// Initial values of parameters, drawn as in transformers.
#include <reprise/model/model.h>

#include "model/families/architecture.h"
#include "model/layers/block.h"
#include "model/layers/linear.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>

namespace reprise {

namespace {

class Initializer {
 public:
  explicit Initializer(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

  // Drawn on the CPU in float32, so that a seed gives the same weights on every device.
  void normal(at::Tensor& target, double deviation) {
    const auto values = at::empty(target.sizes(), at::kFloat).normal_(0, deviation, generator_);
    target.copy_(values);
  }

  void fill(torch::nn::Module& module, double deviation) {
    if (auto* linear = module.as<Linear>()) {
      normal(linear->weight, deviation);
      if (linear->bias.defined()) {
        linear->bias.zero_();
      }
    } else if (auto* embedding = module.as<Embedding>()) {
      normal(embedding->weight, deviation);
    } else if (auto* norm = module.as<Norm>()) {
      if (norm->weight.defined()) {
        norm->weight.fill_(norm->initial_weight());
      }
      if (norm->bias.defined()) {
        norm->bias.zero_();
      }
    }
  }

 private:
  at::Generator generator_;
};

}  // namespace

void Model::initialize(uint64_t seed) {
  const at::NoGradGuard no_grad;
  Initializer initializer(seed);
  const double deviation = config_.initializer_range;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  const std::string scaled = architecture_of(config_).scaled_at_first;
  for (const auto& item : named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const bool is_scaled = !scaled.empty() && item.key().ends_with(scaled);
    initializer.fill(*item.value(), is_scaled ? residual : deviation);
  }
}

void Model::initialize_head(uint64_t seed) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(head_ != nullptr, "[model] a tied head has no weights of its own.");
  Initializer(seed).fill(*head_, config_.initializer_range);
}

}  // namespace reprise
