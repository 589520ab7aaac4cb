// Policies: keep what is dear to compute, recompute what is cheap.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(0);
  const auto w = (torch::randn({128, 128}) * 0.1).set_requires_grad(true);
  const auto x = torch::randn({64, 128}).set_requires_grad(true);
  const auto block = [w](at::Tensor h) {
    for (int i = 0; i < 4; ++i) {
      h = torch::gelu(torch::mm(h, w));
    }
    const reprise::NamedRange range("last");
    return torch::gelu(torch::mm(h, w));
  };

  reprise::record_checkpoint_stats(true);
  const auto run = [&](const char* name, std::shared_ptr<const reprise::Policy> policy) {
    reprise::reset_checkpoint_stats();
    w.mutable_grad() = at::Tensor();
    reprise::checkpoint({.policy = std::move(policy), .name = name}, block, x).sum().backward();
    const auto stats = reprise::checkpoint_stats().regions.at(name);
    std::cout << name << ": kept " << stats.bytes_kept / 1024 << " KiB, " << stats.ops_replayed
              << " results replayed, " << stats.ops_recomputed << " operators run again\n";
    return w.grad().clone();
  };

  const auto full = run("full", reprise::policy::full());
  const auto matmuls = run("matmuls", reprise::policy::save_matmuls());
  const auto half = run("every second matmul", reprise::policy::save_matmuls(2));
  const auto last = run("the range \"last\"", reprise::policy::save_named({"last"}));
  // Any rule at all: here, results of at most 16 KiB are recomputed, whatever computed them.
  const auto custom = run("custom", reprise::policy::from([](const reprise::OpContext& op) {
                            const bool is_large = op.arguments[0].isTensor() &&
                                                  op.arguments[0].toTensor().nbytes() > 16 * 1024;
                            return is_large && op.name == "aten::mm" ? reprise::Decision::Keep
                                                                     : reprise::Decision::Recompute;
                          }));
  const bool same = torch::equal(full, matmuls) && torch::equal(full, half) &&
                    torch::equal(full, last) && torch::equal(full, custom);
  std::cout << "gradients are " << (same ? "equal" : "NOT equal") << "\n";
  return same ? 0 : 1;
}
