#include "checkpoint/state/value_hash.h"

#include "checkpoint/ops/engine_ops.h"

#include <reprise/options.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace reprise::detail {
namespace {

/// The tensor's elements as integers of the same width, in one dimension.
at::Tensor as_integers(const at::Tensor& tensor) {
  auto flat = (tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor)
                  .resolve_neg()
                  .contiguous()
                  .reshape({-1});
  switch (flat.element_size()) {
    case 1:
      return flat.view(at::kByte);
    case 2:
      return flat.view(at::kShort);
    case 4:
      return flat.view(at::kInt);
    default:
      return flat.view(at::kLong);
  }
}

}  // namespace

at::Tensor value_hash(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || tensor.is_quantized()) {
    throw CheckpointError(
        c10::str("[reprise] DeterminismCheck::Values cannot hash a saved tensor of layout ",
                 tensor.layout(),
                 ". Use DeterminismCheck::Metadata for this region."));
  }
  const EngineOpsGuard guard;
  constexpr int64_t kChunk = int64_t{1} << 20;
  constexpr auto kGolden = static_cast<int64_t>(0x9E3779B97F4A7C15ULL);
  const auto bits = as_integers(tensor.detach());
  auto hash = at::full({}, bits.numel(), bits.options().dtype(at::kLong));
  for (int64_t begin = 0; begin < bits.numel(); begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, bits.numel());
    // An odd factor per position, so that elements that are permuted do not cancel out.
    auto factor = at::arange(begin, end, hash.options()).mul_(kGolden).bitwise_or_(1);
    auto mixed = bits.slice(0, begin, end).to(at::kLong).add(1).mul_(factor);
    hash = hash.mul(31).add_(mixed.bitwise_xor_(mixed.bitwise_right_shift(29)).sum());
  }
  return hash;
}

}  // namespace reprise::detail
