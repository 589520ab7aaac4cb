// AdamW with moments of 16 bits.
#include "optim/compact_adamw.h"
#include "optim/elementwise_rule.h"

#include <ATen/ATen.h>

#include <utility>

namespace reprise {
namespace {

class AdamWBf16 final : public CompactAdamW {
 public:
  using CompactAdamW::CompactAdamW;

  std::vector<StateSpec> state_of(const TensorPart& part) const override {
    std::vector<StateSpec> specs = {state_like(part, "exp_avg"), state_like(part, "exp_avg_sq")};
    for (StateSpec& spec : specs) {
      spec.dtype = at::kBFloat16;
    }
    return specs;
  }

 private:
  void update(const ParameterState& state,
              int64_t begin,
              int64_t count,
              double learning_rate) const override {
    const WeightSlice weight(state, begin, count);
    const at::Tensor kept = state.buffers[0].view({-1}).narrow(0, begin, count);
    const at::Tensor kept_sq = state.buffers[1].view({-1}).narrow(0, begin, count);
    const at::Tensor exp_avg = kept.to(at::kFloat);
    const at::Tensor exp_avg_sq = kept_sq.to(at::kFloat);
    apply(state, weight, exp_avg, exp_avg_sq, learning_rate);
    const int64_t first = state.begin + begin;
    weight.store(key(state, Rounded::Weight), first);
    round_into(kept, exp_avg, key(state, Rounded::FirstMoment), first);
    round_into(kept_sq, exp_avg_sq, key(state, Rounded::SecondMoment), first);
  }
};

}  // namespace

std::unique_ptr<const UpdateRule> make_adamw_bf16(const OptimizerOptions& options) {
  return std::make_unique<AdamWBf16>(options);
}

}  // namespace reprise
