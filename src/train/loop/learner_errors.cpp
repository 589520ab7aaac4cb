// What a learner reports when a step fails: which rows gave a loss that is not finite, or what used
// the memory that ran out.
#include "train/budget/out_of_memory.h"
#include "train/loop/learner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace reprise {

// The sum over all processes was not finite. A process that searches for the bad row runs forward
// passes that the others do not run, so the parameters are gathered beforehand.
void Learner::report_non_finite(const at::Tensor& losses,
                                int64_t step,
                                const MicroBatches& micro_batches) const {
  const UnshardedParameters unsharded(model_);
  world_.run_on_all("looking for a loss that is not finite",
                    [&] { check_finite(losses, step, micro_batches); });
  TORCH_CHECK(false, "[train] step ", step + 1, ": the sum of its finite losses is not finite.");
}

void Learner::check_finite(const at::Tensor& losses,
                           int64_t step,
                           const MicroBatches& micro_batches) const {
  const auto values = losses.to(at::kDouble).cpu();
  if (budget_ != nullptr && !values.isfinite().all().item<bool>()) {
    budget_->give_up();  // the search for the bad row is not part of the step
  }
  for (int64_t i = 0; i < values.numel(); ++i) {
    TORCH_CHECK(std::isfinite(values[i].item<double>()),
                "[train] step ",
                step + 1,
                ": ",
                micro_batches.describe_non_finite(static_cast<size_t>(i)));
  }
}

// The allocator's error has the size of one request; this adds what the rest was used for.
std::string Learner::explain_memory(const std::exception& error,
                                    int64_t step,
                                    const MicroBatches& micro_batches) {
  meter_.give_up();
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const auto shape = micro_batches.shape(std::min(micro_batch_, micro_batches.size() - 1));
  const auto text = explain_out_of_memory(
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what(),
      {meter_.classes(),
       step + 1,
       static_cast<int64_t>(micro_batches.size()),
       shape.rows,
       shape.length},
      model_);
  return budget_ == nullptr ? text : text + "\n" + budget_->give_up();
}

}  // namespace reprise
