// Merges adapters into the weights, permanently or for a scope.
#include <reprise/model/lora.h>

#include "model/layers/linear.h"

#include <c10/util/Exception.h>

#include <memory>
#include <vector>

namespace reprise {

namespace {

std::vector<std::shared_ptr<Linear>> adapted_modules(const Model& model) {
  std::vector<std::shared_ptr<Linear>> adapted;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    auto linear = std::dynamic_pointer_cast<Linear>(module);
    if (linear != nullptr && linear->branch() != nullptr) {
      TORCH_CHECK(!linear->is_folded(),
                  "[lora] the adapters are merged already: end the MergedLora first.");
      TORCH_CHECK(
          linear->quantized() == nullptr,
          "[lora] adapters cannot be merged into quantised weights without another rounding: "
          "call dequantize_model() first, as `reprise merge` does.");
      adapted.push_back(std::move(linear));
    }
  }
  return adapted;
}

}  // namespace

void merge_lora(Model& model) {
  const auto adapted = adapted_modules(model);
  TORCH_CHECK(!adapted.empty(), "[lora] the model has no adapters to merge.");
  for (const auto& linear : adapted) {
    linear->fold_branch();
    linear->set_branch(nullptr);
    linear->forget_reference_branch();
    linear->forget_copies();
  }
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto* layer = module->as<WeightAndBias>()) {
      layer->forget_copies();
    }
  }
}

struct MergedLora::State {
  std::vector<std::shared_ptr<Linear>> folded;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const auto& linear : folded) {
      linear->unfold_branch();
    }
  }
};

MergedLora::MergedLora(Model& model) : state_(std::make_unique<State>()) {
  const auto adapted = adapted_modules(model);
  state_->folded.reserve(adapted.size());
  for (const auto& linear : adapted) {
    linear->fold_branch();
    state_->folded.push_back(linear);
  }
}

MergedLora::~MergedLora() = default;

}  // namespace reprise
