// AdamW with small moments: what 8-bit and 16-bit moments have in common. The arithmetic is in
// float32, a slice at a time; weights of 16 bits are rounded stochastically.
#pragma once

#include "optim/stochastic_rounding.h"
#include "optim/update_rule.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise {

/// The tensors of a parameter that are rounded, each with random bits of its own.
enum class Rounded : uint8_t { Weight, FirstMoment, SecondMoment };

/// A slice of a parameter in float32. store() puts it back.
class WeightSlice {
 public:
  WeightSlice(const ParameterState& state, int64_t begin, int64_t count);

  const at::Tensor& values() const { return values_; }
  const at::Tensor& grads() const { return grads_; }

  void store(const RoundingKey& key, int64_t begin) const;

 private:
  at::Tensor target_, values_, grads_;
};

class CompactAdamW : public UpdateRule {
 public:
  explicit CompactAdamW(const OptimizerOptions& options) : options_(options) {}

  void check(const TensorPart& part) const override;
  bool has_copies() const override { return false; }
  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate) const override;
  int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const override;

 protected:
  virtual void update(const ParameterState& state,
                      int64_t begin,
                      int64_t count,
                      double learning_rate) const = 0;

  RoundingKey key(const ParameterState& state, Rounded tensor) const {
    return {options_.seed, state.name, state.updates, static_cast<uint64_t>(tensor)};
  }

  /// Updates float32 moments and the weight, with the operators of bitsandbytes' 8-bit update.
  void apply(const ParameterState& state,
             const WeightSlice& weight,
             const at::Tensor& exp_avg,
             const at::Tensor& exp_avg_sq,
             double learning_rate) const;
  void average(const WeightSlice& weight,
               const at::Tensor& exp_avg,
               const at::Tensor& exp_avg_sq) const;
  static void decay(const ParameterState& state, const WeightSlice& weight, double learning_rate);

  OptimizerOptions options_;
};

/// Moments of 8 bits in blocks. Parameters must be cut between blocks.
std::unique_ptr<const UpdateRule> make_adamw_8bit(const OptimizerOptions& options);
/// Moments of 16 bits.
std::unique_ptr<const UpdateRule> make_adamw_bf16(const OptimizerOptions& options);

}  // namespace reprise
