// How a step of an elementwise rule goes through the parameters.
//
// Note [Updates in chunks]: a step collects slices of parameters into chunks of bounded size. Small
// parameters share one kernel call; a large one is split. So the temporary memory of a step
// (float32 gradients of 16-bit parameters, intermediate results of a rule that is not fused) is
// bounded by the size of a chunk. Otherwise it would be as large as the model, while the gradients
// are still alive.
#pragma once

#include "optim/elementwise_rule.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// 64 MiB of float32: large enough to keep a GPU busy until the next launch.
inline constexpr int64_t kChunkElements = int64_t{1} << 24;

/// Collects the slices of one step, and updates them whenever a chunk is full.
class ChunkedUpdate {
 public:
  ChunkedUpdate(const ElementwiseRule& rule, double learning_rate);

  /// The parameter must have a gradient. `state` must not move until finish().
  void add(const ParameterState& state);
  /// Updates what is left.
  void finish();

 private:
  void clear();
  void add_slice(const ParameterState& state, const at::Tensor& grad, int64_t begin, int64_t count);
  void cast_gradients();

  const ElementwiseRule& rule_;
  double learning_rate_;
  Chunk chunk_;
  std::vector<at::Tensor> rounded_;        ///< 16-bit parameters to copy chunk_.values to
  const ParameterState* first_ = nullptr;  ///< first of the chunk; null while it is empty
  int64_t elements_ = 0;
};

}  // namespace reprise
