// Checkpointing in one call: forward keeps only a region's input, backward runs the region again.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <iostream>
#include <vector>

int main() {
  reprise::track_cpu_memory();
  std::vector<torch::nn::Sequential> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(torch::nn::Sequential(torch::nn::Linear(128, 512),
                                           torch::nn::GELU(),
                                           torch::nn::Dropout(0.1),
                                           torch::nn::Linear(512, 128)));
  }
  const auto x = torch::randn({512, 128});

  const auto train = [&](bool checkpointed) {
    torch::manual_seed(1);  // the same dropout masks both times
    const reprise::PeakTracker tracker(at::kCPU);
    auto h = x;
    for (auto& block : blocks) {
      block->zero_grad();
      // Captured by value: the region needs the block again in backward.
      const auto forward = [block](at::Tensor y) { return y + block.ptr()->forward(y); };
      h = checkpointed ? reprise::checkpoint(forward, h) : forward(h);
    }
    h.square().mean().backward();
    std::cout << (checkpointed ? "checkpointed: " : "plain:        ") << tracker.extra() / 1024
              << " KiB\n";
    return blocks.front()->parameters().front().grad().clone();
  };

  const bool same = torch::equal(train(false), train(true));
  std::cout << "gradients are " << (same ? "equal" : "NOT equal") << "\n";
  return same ? 0 : 1;
}
