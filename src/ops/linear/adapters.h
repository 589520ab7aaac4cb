// LoRA adapters beside linear layers of one input: the part that the operators with adapters share.
//
// Note [What adapters add]
// Every adapter adds scale * drop(x) a^T b^T to its columns of a product that is already there. All
// a are stacked, so one narrow product reads the input, and each b is multiplied onto its columns
// in place: no tensor as wide as the product is made. With a b of zeros the product keeps its bits.
//
// Note [What adapters keep]
// Backward gets x as a layer that is trained would keep it, in its own type, and the seed of
// dropout. It computes the low-rank rows again, which costs one narrow product. Adapters with
// dropout read one dropped x for all layers of an input, made again from the seed.
//
// Note [The type that adapters are multiplied in]
// On a GPU it is that of x: the small matrices are converted, never x, and sums are float32.
// Elsewhere it is the wider of both types, at least float32. What is as wide as x and has to be
// converted or dropped is copied some rows at a time.
#pragma once

#include "ops/node.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::ops {

/// The adapters of layers whose outputs are side by side, in the order of their columns.
struct Adapters {
  std::vector<at::Tensor> a;    ///< (rank, in) each, of one type
  std::vector<at::Tensor> b;    ///< (columns, rank) each, of that type
  std::vector<int64_t> starts;  ///< first column of each
  std::vector<double> scales;   ///< of each, without the 1 / (1 - p) of dropout
  double dropout = 0;           ///< probability p that a value of x is dropped
  at::Tensor seed = {};         ///< draw_seed(); undefined: nothing is dropped

  bool empty() const { return a.empty(); }
};

/// Checks that they fit to a layer with rows of `in` values on the device of x, and `out` columns.
void check_adapters(
    const char* name, const at::Tensor& x, int64_t in, int64_t out, const Adapters& adapters);

/// Adapters from the arguments of an operator, whose schema ends in kAdapterArguments.
inline constexpr const char* kAdapterArguments =
    "Tensor[] a, Tensor[] b, int[] starts, float[] scales, float dropout, Tensor? seed";
inline Adapters adapters_of(at::TensorList a,
                            at::TensorList b,
                            at::IntArrayRef starts,
                            at::ArrayRef<double> scales,
                            double dropout,
                            const std::optional<at::Tensor>& seed) {
  return {a.vec(), b.vec(), starts.vec(), scales.vec(), dropout, seed.value_or(at::Tensor())};
}

/// product (..., width) += what the adapters add for x. The product is contiguous.
REPRISE_API void add_adapters_(at::Tensor& product, const at::Tensor& x, const Adapters& adapters);

/// Whether a gradient is needed of one a, and of one b.
struct AdapterNeeds {
  bool a = false, b = false;
};

/// Undefined where not needed.
struct AdapterGradients {
  std::vector<at::Tensor> a, b;
};

/// The backward of add_adapters_(), in two steps: x may be known only after its gradient.
class AdapterBackward {
 public:
  /// `gradient`: of the product.
  AdapterBackward(Adapters adapters, const at::Tensor& gradient);

  /// for_x (..., in), contiguous and of the type of x, += its gradient through the adapters.
  void add_to(at::Tensor& for_x) const;
  /// Gradients of all a and all b; x is read only if one is needed.
  AdapterGradients factors(const at::Tensor& x, const AdapterNeeds& needs) const;

 private:
  Adapters adapters_;
  at::Tensor gradient_;  // (rows, width)
  at::ScalarType type_;  // Note [The type that adapters are multiplied in]
  at::Tensor stacked_;   // (ranks, in)
  at::Tensor low_;       // gradient of the low-rank rows, (rows, ranks)
};

/// Adapters in an autograd node.
class SavedAdapters {
 public:
  void save(const Adapters& adapters);
  Adapters unpack() const;
  void release();
  size_t count() const { return a_.size(); }

 private:
  std::vector<SavedVariable> a_, b_;
  SavedVariable seed_;
  Adapters plain_;  // all but the tensors
};

/// Whether one of them is trained, so that backward needs x.
bool are_trained(const Adapters& adapters);

/// What a running backward needs of a node whose inputs from number `first` on are `count` a, then
/// as many b.
AdapterNeeds adapter_needs(const torch::autograd::Node& node, size_t first, size_t count);

/// Appends the gradients of every a, then of every b.
void append(variable_list& results, AdapterGradients gradients);

}  // namespace reprise::ops
