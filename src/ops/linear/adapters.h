// LoRA adapters beside linear layers of one input, as arguments of operators.
#pragma once

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

/// Whether a gradient is needed of one a, and of one b.
struct AdapterNeeds {
  bool a = false, b = false;
};

/// Undefined where not needed.
struct AdapterGradients {
  std::vector<at::Tensor> a, b;
};

/// Whether one of them is trained, so that backward needs x.
bool are_trained(const Adapters& adapters);

}  // namespace reprise::ops
