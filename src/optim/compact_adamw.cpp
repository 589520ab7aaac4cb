// AdamW with small moments: 8 bits in blocks as in bitsandbytes, or bfloat16. The arithmetic is in
// float32, a slice at a time; weights of 16 bits are rounded stochastically.
#include "optim/blockwise_map.h"
#include "optim/elementwise_rule.h"
#include "optim/other_rules.h"
#include "optim/stochastic_rounding.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace reprise {
namespace {

// 16 MiB of float32; whole blocks.
constexpr int64_t kUpdateElements = int64_t{1} << 22;
constexpr int64_t kLeast8bit = 4096;  // bitsandbytes' min_8bit_size: below, moments are float32

enum class Rounded : uint8_t { Weight, FirstMoment, SecondMoment };

/// A slice of a parameter in float32. store() puts it back.
class WeightSlice {
 public:
  WeightSlice(const ParameterState& state, int64_t begin, int64_t count)
      : target_(state.parameter.view({-1}).narrow(0, begin, count)),
        values_(target_.to(at::kFloat)),
        grads_(state.parameter.grad().reshape({-1}).narrow(0, begin, count).to(at::kFloat)) {}

  const at::Tensor& values() const { return values_; }
  const at::Tensor& grads() const { return grads_; }

  void store(const RoundingKey& key, int64_t begin) const {
    if (target_.scalar_type() == at::kBFloat16) {
      round_into(target_, values_, key, begin);
    }
  }

 private:
  at::Tensor target_, values_, grads_;
};

class CompactAdamW : public UpdateRule {
 public:
  explicit CompactAdamW(const OptimizerOptions& options) : options_(options) {}

  void check(const TensorPart& part) const override {
    const at::ScalarType dtype = part.values.scalar_type();
    TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16,
                "[optim] ",
                name_of(options_.kind),
                ": parameter \"",
                part.name,
                "\": expected float32 or bfloat16, got ",
                dtype,
                ". Use adamw for it");
  }

  bool has_copies() const override { return false; }

  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate) const override {
    for (const ParameterState* state : parameters) {
      const int64_t elements = state->parameter.numel();
      for (int64_t begin = 0; begin < elements; begin += kUpdateElements) {
        update(*state, begin, std::min(kUpdateElements, elements - begin), learning_rate);
      }
    }
  }

  // Two moments and two results on the way; of a bfloat16 parameter, weights and gradients too.
  int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const override {
    int64_t bytes = 0;
    for (const ParameterState* state : parameters) {
      const int64_t elements = std::min(kUpdateElements, state->parameter.numel());
      bytes = std::max(bytes, elements * 4 * (state->parameter.element_size() == 2 ? 6 : 4));
    }
    return bytes;
  }

 protected:
  virtual void update(const ParameterState& state,
                      int64_t begin,
                      int64_t count,
                      double learning_rate) const = 0;

  RoundingKey key(const ParameterState& state, Rounded tensor) const {
    return {options_.seed, state.name, state.updates, static_cast<uint64_t>(tensor)};
  }

  /// Of float32 moments, with the operators of bitsandbytes' 8-bit update.
  void apply(const ParameterState& state,
             const WeightSlice& weight,
             const at::Tensor& exp_avg,
             const at::Tensor& exp_avg_sq,
             double learning_rate) const {
    average(weight, exp_avg, exp_avg_sq);
    const auto updates = static_cast<double>(state.updates);
    const double correction1 = 1 - std::pow(options_.beta1, updates);
    const double correction2 = std::sqrt(1 - std::pow(options_.beta2, updates));
    const at::Tensor denominator = exp_avg_sq.sqrt().div_(correction2).add_(options_.epsilon);
    decay(state, weight, learning_rate);
    weight.values().addcdiv_(exp_avg, denominator, -learning_rate / correction1);
  }

  void average(const WeightSlice& weight,
               const at::Tensor& exp_avg,
               const at::Tensor& exp_avg_sq) const {
    const at::Tensor& grads = weight.grads();
    exp_avg.mul_(options_.beta1).add_(grads, 1 - options_.beta1);
    exp_avg_sq.mul_(options_.beta2).addcmul_(grads, grads, 1 - options_.beta2);
  }

  static void decay(const ParameterState& state, const WeightSlice& weight, double learning_rate) {
    if (state.weight_decay > 0) {
      weight.values().mul_(1 - learning_rate * state.weight_decay);
    }
  }

  OptimizerOptions options_;
};

class AdamW8bit final : public CompactAdamW {
 public:
  using CompactAdamW::CompactAdamW;

  void check(const TensorPart& part) const override {
    CompactAdamW::check(part);
    const int64_t whole = c10::multiply_integers(part.shape);
    const int64_t end = part.begin + part.values.numel();
    const bool is_aligned =
        part.begin % BlockwiseMap::kBlock == 0 && (end % BlockwiseMap::kBlock == 0 || end == whole);
    TORCH_CHECK(!has_8_bits(part) || is_aligned,
                "[optim] adamw_8bit: parameter \"",
                part.name,
                "\": expected a part of whole blocks of ",
                BlockwiseMap::kBlock,
                " elements, got the elements ",
                part.begin,
                " to ",
                end,
                ". Shard the model with ShardOptions::block_elements = ",
                BlockwiseMap::kBlock);
  }

  std::vector<StateSpec> state_of(const TensorPart& part) const override {
    std::vector<StateSpec> specs;
    for (const char* name : {"exp_avg", "exp_avg_sq"}) {
      specs.push_back(state_like(part, name));
      if (has_8_bits(part)) {
        specs.back().dtype = at::kByte;
        specs.push_back({std::string(name) + "/absmax",
                         at::kFloat,
                         {BlockwiseMap::blocks_of(c10::multiply_integers(part.shape))},
                         part.begin / BlockwiseMap::kBlock,
                         BlockwiseMap::blocks_of(part.values.numel())});
      }
    }
    return specs;
  }

 private:
  static bool has_8_bits(const TensorPart& part) {
    return c10::multiply_integers(part.shape) >= kLeast8bit;
  }

  void update(const ParameterState& state,
              int64_t begin,
              int64_t count,
              double learning_rate) const override {
    const WeightSlice weight(state, begin, count);
    if (state.buffers.size() == 2) {
      update_in_float32(state, weight, begin, learning_rate);
    } else {
      update_in_blocks(state, weight, begin, learning_rate);
    }
    weight.store(key(state, Rounded::Weight), state.begin + begin);
  }

  void update_in_blocks(const ParameterState& state,
                        const WeightSlice& weight,
                        int64_t begin,
                        double learning_rate) const {
    const int64_t count = weight.values().numel();
    const auto& [first, second] = maps(weight.values().device());
    const int64_t block = begin / BlockwiseMap::kBlock;
    const int64_t blocks = BlockwiseMap::blocks_of(count);
    const at::Tensor codes = state.buffers[0].view({-1}).narrow(0, begin, count);
    const at::Tensor maxima = state.buffers[1].narrow(0, block, blocks);
    const at::Tensor codes_sq = state.buffers[2].view({-1}).narrow(0, begin, count);
    const at::Tensor maxima_sq = state.buffers[3].narrow(0, block, blocks);
    const at::Tensor exp_avg = first.decode(codes, maxima);
    const at::Tensor exp_avg_sq = second.decode(codes_sq, maxima_sq);
    apply(state, weight, exp_avg, exp_avg_sq, learning_rate);
    first.encode(exp_avg, codes, maxima);
    second.encode(exp_avg_sq, codes_sq, maxima_sq);
  }

  // bitsandbytes' 32-bit update rounds elsewhere than its 8-bit update.
  void update_in_float32(const ParameterState& state,
                         const WeightSlice& weight,
                         int64_t begin,
                         double learning_rate) const {
    const int64_t count = weight.values().numel();
    const at::Tensor exp_avg = state.buffers[0].view({-1}).narrow(0, begin, count);
    const at::Tensor exp_avg_sq = state.buffers[1].view({-1}).narrow(0, begin, count);
    average(weight, exp_avg, exp_avg_sq);
    const auto updates = static_cast<double>(state.updates);
    const double correction1 = 1 - std::pow(options_.beta1, updates);
    const double correction2 = std::sqrt(1 - std::pow(options_.beta2, updates));
    decay(state, weight, learning_rate);
    const at::Tensor change = exp_avg / exp_avg_sq.sqrt().add_(options_.epsilon * correction2);
    weight.values().add_(change, -learning_rate * correction2 / correction1);
  }

  struct Maps {
    BlockwiseMap first, second;
  };

  const Maps& maps(const at::Device& device) const {
    const std::string name = device.str();
    auto found = maps_.find(name);
    if (found == maps_.end()) {
      found = maps_.emplace(name, Maps{{true, device}, {false, device}}).first;
    }
    return found->second;
  }

  mutable std::map<std::string, Maps> maps_;  // by device, made when first used
};

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

std::unique_ptr<const UpdateRule> make_adamw_8bit(const OptimizerOptions& options) {
  return std::make_unique<AdamW8bit>(options);
}

std::unique_ptr<const UpdateRule> make_adamw_bf16(const OptimizerOptions& options) {
  return std::make_unique<AdamWBf16>(options);
}

}  // namespace reprise
