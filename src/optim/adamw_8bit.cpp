// AdamW with moments of 8 bits in blocks, as in bitsandbytes.
#include "optim/blockwise_map.h"
#include "optim/compact_adamw.h"
#include "optim/elementwise_rule.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kLeast8bit = 4096;  // bitsandbytes' min_8bit_size: below, moments are float32

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

}  // namespace

std::unique_ptr<const UpdateRule> make_adamw_8bit(const OptimizerOptions& options) {
  return std::make_unique<AdamW8bit>(options);
}

}  // namespace reprise
