// The overhead of a region: chains of small mm + tanh on one thread, so that everything but the
// engine is cheap. Prints one JSON object with microseconds; region_compare.py compares it with the
// Python peer.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

namespace {

struct Variant {
  std::string name;
  std::function<void()> run;
  double best = std::numeric_limits<double>::infinity();
};

double microseconds_per_call(const std::function<void()>& run) {
  constexpr int kCalls = 100;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    run();
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
             .count() /
         kCalls;
}

/// Chains of `depth` times (mm, tanh), each of which saves three tensors.
std::vector<Variant> variants(int depth) {
  const auto x = torch::randn({4, 16}).set_requires_grad(true);
  const auto w = torch::randn({16, 16}).set_requires_grad(true);
  const auto chain = [w, depth](at::Tensor h) {
    for (int i = 0; i < depth; ++i) {
      h = torch::tanh(torch::mm(h, w));
    }
    return h;
  };
  const auto step = [x, chain](const reprise::CheckpointOptions& options) {
    return [x, chain, options] { reprise::checkpoint(options, chain, x).sum().backward(); };
  };
  const std::string prefix = std::to_string(depth) + ".";
  return {
      {prefix + "plain", [x, chain] { chain(x).sum().backward(); }},
      {prefix + "forward", [x, chain] { chain(x); }},
      {prefix + "checkpoint", step({})},
      {prefix + "reentrant", step({.use_reentrant = true})},
      {prefix + "policy_recompute_all", step({.policy = reprise::policy::full()})},
      {prefix + "policy_keep_mm", step({.policy = reprise::policy::save_ops({"aten::mm"})})},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 30;
  at::set_num_threads(1);
  torch::manual_seed(0);
  std::vector<Variant> all;
  for (const int depth : {10, 40}) {
    for (auto& variant : variants(depth)) {
      all.push_back(std::move(variant));
    }
  }
  // Interleaved, and the best of many rounds, because other work on the machine only adds time.
  for (int round = 0; round < rounds; ++round) {
    for (auto& variant : all) {
      variant.best = std::min(variant.best, microseconds_per_call(variant.run));
    }
  }
  std::cout << "{";
  for (size_t i = 0; i < all.size(); ++i) {
    std::cout << (i == 0 ? "" : ", ") << "\"" << all[i].name << "\": " << all[i].best;
  }
  std::cout << "}\n";
}
