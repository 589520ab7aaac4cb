// Regions in a library that is loaded late.
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <cstdio>
#include <string>

namespace {

at::Tensor weight() {
  return torch::linspace(-1, 1, 16).reshape({4, 4}).set_requires_grad(true);
}

at::Tensor block(const at::Tensor& h) {
  return torch::mm(h, h).tanh();
}

}  // namespace

/// Returns how many regions gave other gradients, or kept nothing.
extern "C" REPRISE_API int train() {
  auto w = weight();
  block(w).sum().backward();
  int failures = 0;
  reprise::record_checkpoint_stats(true);
  for (const bool keeps : {false, true}) {
    auto v = weight();
    const auto policy = keeps ? reprise::policy::save_matmuls() : nullptr;
    const reprise::CheckpointOptions options{.early_stop = false, .policy = policy};
    reprise::checkpoint(
        options, [](at::Tensor h) { return block(h); }, v)
        .sum()
        .backward();
    failures += torch::equal(v.grad(), w.grad()) ? 0 : 1;
  }
  return failures + (reprise::checkpoint_stats().total.ops_replayed == 1 ? 0 : 1);
}

/// Returns 0 if a region is refused with the key's name.
extern "C" REPRISE_API int is_refused() {
  try {
    reprise::checkpoint([](at::Tensor h) { return block(h); }, weight());
  } catch (const reprise::CheckpointError& error) {
    std::printf("%s\n", error.what_without_backtrace());
    return std::string(error.what()).find("dispatch key DeferredInit") == std::string::npos ? 1 : 0;
  }
  return 1;
}
