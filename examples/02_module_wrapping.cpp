// Existing models: mark their blocks once, outside of the model's code.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <iostream>

struct BlockImpl : torch::nn::Module {
  BlockImpl() : linear(register_module("linear", torch::nn::Linear(64, 64))) {}
  at::Tensor forward(const at::Tensor& x, double scale) {
    return x + torch::tanh(linear(x)) * scale;
  }
  torch::nn::Linear linear;
};
TORCH_MODULE(Block);

struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    for (int i = 0; i < 4; ++i) {
      blocks->push_back(Block());
    }
    register_module("blocks", blocks);
    register_module("head", head);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) {
      // For block->forward(x, 0.5): obeys what apply_activation_checkpointing says.
      x = reprise::call(std::dynamic_pointer_cast<BlockImpl>(block), x, 0.5);
    }
    return head->forward(x);
  }
  torch::nn::ModuleList blocks;
  torch::nn::Sequential head{
      torch::nn::Linear(64, 64), torch::nn::ReLU(), torch::nn::Linear(64, 1)};
};
TORCH_MODULE(Model);

int main() {
  Model model;
  const auto is_region = [](const torch::nn::Module& module) {
    // Blocks obey through reprise::call; the children of a Sequential need no cooperation.
    return dynamic_cast<const BlockImpl*>(&module) != nullptr ||
           module.name() == "torch::nn::ReLUImpl";
  };
  const size_t regions = reprise::apply_activation_checkpointing(model, {}, is_region);
  reprise::record_checkpoint_stats(true);
  model->forward(torch::randn({8, 64})).mean().backward();
  const auto stats = reprise::checkpoint_stats();
  std::cout << regions << " modules checkpointed, " << stats.total.recomputed
            << " regions recomputed:";
  for (const auto& [name, region] : stats.regions) {
    std::cout << " " << name;
  }
  std::cout << "\n";
  return regions == 5 && reprise::uncalled_marks(*model).empty() ? 0 : 1;
}
