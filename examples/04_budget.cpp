// A budget: say how many bytes activations may take, and get the fastest step within them.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace reprise::literals;

namespace {

constexpr int64_t kTokens = 512, kWidth = 256, kBlocks = 8;

/// h + tanh(h a) b, eight times, each a region.
struct Net {
  Net() {
    for (int64_t i = 0; i < kBlocks; ++i) {
      weights.push_back((torch::randn({kWidth, 4 * kWidth}) * 0.05).requires_grad_());
      weights.push_back((torch::randn({4 * kWidth, kWidth}) * 0.05).requires_grad_());
    }
  }

  void step(at::Tensor h) const {
    for (size_t i = 0; i < weights.size(); i += 2) {
      const auto block = [a = weights[i], b = weights[i + 1]](const at::Tensor& x) {
        return x + torch::mm(torch::tanh(torch::mm(x, a)), b);
      };
      h = reprise::checkpoint({.name = "block " + std::to_string(i / 2)}, block, std::move(h));
    }
    h.square().mean().backward();
  }

  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients;
    for (auto& weight : weights) {
      gradients.push_back(std::exchange(weight.mutable_grad(), {}));
    }
    return gradients;
  }

  std::vector<at::Tensor> weights;
};

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = torch::equal(a[i], b[i]);
  }
  return same;
}

}  // namespace

int main() {
  reprise::track_cpu_memory();
  torch::manual_seed(0);
  Net net;
  const auto x = torch::randn({kTokens, kWidth});
  net.step(x);
  const auto expected = net.take_gradients();

  const auto step = [&] { net.step(x); };
  const auto widest = reprise::plan(step, c10::kCPU, {.budget = 1_GiB});
  const int64_t least = widest.curve().front().peak_bytes, most = widest.curve().back().peak_bytes;
  bool is_right = true;
  for (const int64_t budget : {least, (least + most) / 2, most}) {
    const auto plan = widest.with_budget(budget);
    std::cout << plan.describe();
    const reprise::PlanGuard use(plan);
    step();
    use.finish();
    is_right = is_right && are_equal(net.take_gradients(), expected);
  }
  std::cout << "gradients are " << (is_right ? "equal" : "NOT equal") << "\n";
  try {
    widest.with_budget(least - 1);
    is_right = false;
  } catch (const c10::Error& error) {
    std::cout << "a byte less: " << error.what_without_backtrace() << "\n";
  }
  return is_right ? 0 : 1;
}
