#include "checkpoint/state/value_hash.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/torch_versions.h"

#include <reprise/options.h>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace reprise::detail {
namespace {

/// Mixes an element with an odd factor per position, so that elements that are permuted do not
/// cancel out. The hash is the sum over all elements.
constexpr auto kGolden = 0x9E3779B97F4A7C15ULL;

/// Elements `begin` to `end` of a tensor in the CPU's memory, without temporary memory: the check
/// also runs where a plan holds a budget.
template <class Bits>
uint64_t hash_elements(const at::Tensor& tensor, int64_t begin, int64_t end) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  const auto* const data = static_cast<const Bits*>(tensor.const_data_ptr());
  const size_t last = sizes.size() - 1;
  c10::DimVector index(sizes.size());
  for (int64_t d = static_cast<int64_t>(last), rest = begin; d >= 0; --d) {
    index[d] = rest % sizes[d];
    rest /= sizes[d];
  }
  uint64_t sum = 0;
  for (int64_t position = begin; position < end;) {
    const Bits* row = data;
    for (size_t d = 0; d <= last; ++d) {
      row += index[d] * strides[d];
    }
    const int64_t count = std::min(sizes[last] - index[last], end - position);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t factor = (static_cast<uint64_t>(position + i) * kGolden) | 1U;
      const uint64_t mixed = (static_cast<uint64_t>(row[i * strides[last]]) + 1) * factor;
      sum += mixed ^ (mixed >> 29U);
    }
    position += count;
    index[last] += count;
    for (size_t d = last; d > 0 && index[d] == sizes[d]; --d) {
      index[d] = 0;
      ++index[d - 1];
    }
  }
  return sum;
}

template <class Bits>
at::Tensor hash_on_cpu(const at::Tensor& tensor) {
  const auto flat = tensor.is_contiguous() ? tensor.view({-1}) : tensor;
  const uint64_t sum = at::parallel_reduce(
      0,
      flat.numel(),
      int64_t{1} << 15,
      uint64_t{0},
      [&flat](int64_t begin, int64_t end, uint64_t before) {
        return before + hash_elements<Bits>(flat, begin, end);
      },
      std::plus<>());
  return at::scalar_tensor(static_cast<int64_t>(sum), at::kLong);
}

at::Tensor hash_on_device(const at::Tensor& tensor, at::ScalarType integer) {
  constexpr int64_t kChunk = int64_t{1} << 18;
  const auto bits = tensor.contiguous().view({-1}).view(integer);
  auto hash = at::zeros({}, bits.options().dtype(at::kLong));
  for (int64_t begin = 0; begin < bits.numel(); begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, bits.numel());
    auto factor =
        at::arange(begin, end, hash.options()).mul_(static_cast<int64_t>(kGolden)).bitwise_or_(1);
    // Not add_: 64-bit elements are not copied.
    auto mixed = bits.slice(0, begin, end).to(at::kLong).add(1).mul_(factor);
    hash.add_(mixed.bitwise_xor_(mixed.bitwise_right_shift(29)).sum());
  }
  return hash;
}

at::Tensor hash_strided(at::Tensor tensor) {
  if (tensor._is_zerotensor()) {  // without memory
    tensor = at::zeros(tensor.sizes(), tensor.options());
  }
  tensor = (tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor).resolve_neg();
  const bool is_on_cpu = tensor.device().is_cpu();
  switch (tensor.element_size()) {
    case 1:
      return is_on_cpu ? hash_on_cpu<uint8_t>(tensor) : hash_on_device(tensor, at::kByte);
    case 2:
      return is_on_cpu ? hash_on_cpu<uint16_t>(tensor) : hash_on_device(tensor, at::kShort);
    case 4:
      return is_on_cpu ? hash_on_cpu<uint32_t>(tensor) : hash_on_device(tensor, at::kInt);
    default:
      return is_on_cpu ? hash_on_cpu<uint64_t>(tensor) : hash_on_device(tensor, at::kLong);
  }
}

/// The strided tensors that together are the tensor's content.
std::vector<at::Tensor> parts_of(const at::Tensor& tensor) {
  if (tensor.is_nested()) {
    // Not its buffer, which may also hold what is not the tensor's: it can be a view.
    auto parts = tensor.unbind();
    parts.push_back(tensor._nested_tensor_size());
    return parts;
  }
  switch (tensor.layout()) {
    case c10::kSparse:
      return {tensor._indices(), tensor._values()};
    case c10::kSparseCsr:
    case c10::kSparseBsr:
      return {tensor.crow_indices(), tensor.col_indices(), tensor.values()};
    case c10::kSparseCsc:
    case c10::kSparseBsc:
      return {tensor.ccol_indices(), tensor.row_indices(), tensor.values()};
    default:
      return {tensor};
  }
}

[[noreturn]] void refuse(const std::string& what) {
  throw CheckpointError(c10::str("[reprise] DeterminismCheck::Values cannot hash a saved tensor ",
                                 what,
                                 ". Use DeterminismCheck::Metadata for this region."));
}

/// Note [Workspaces are not compared]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// Some operators of oneDNN and cuDNN save a workspace for their backward: memory as bytes, in a
/// format of the library's own, of which it writes only a part. The rest is whatever the allocator
/// gave, so equal runs leave different bytes, and to compare them would be a false alarm. The
/// results of these operators are compared, as everything else is.
///
/// A workspace has no history of its own. But the operator's node saves one of its results just
/// before, and that one tells which node is saving.
constexpr std::array<std::string_view, 4> kNodesWithWorkspace{"MkldnnRnnLayerBackward0",
                                                              "CudnnRnnBackward0",
                                                              "MiopenRnnBackward0",
                                                              "CudnnBatchNormBackward0"};

bool is_workspace(const at::Tensor& tensor) {
  struct LastResult {
    uint64_t node = 0;
    bool has_workspace = false;
  };
  thread_local LastResult last;
  const uint64_t newest_node = at::sequence_number::peek() - 1;
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  // Not grad_fn(), which would rebuild the history of views.
  if (meta != nullptr && meta->grad_fn_ && meta->grad_fn_->sequence_nr() == newest_node) {
    const auto name = meta->grad_fn_->name();
    last = {newest_node,
            std::find(kNodesWithWorkspace.begin(), kNodesWithWorkspace.end(), name) !=
                kNodesWithWorkspace.end()};
    return false;
  }
  return last.has_workspace && last.node == newest_node && tensor.scalar_type() == at::kByte;
}

}  // namespace

at::Tensor value_hash(const at::Tensor& tensor) {
  if (tensor.is_quantized()) {
    refuse("that is quantized");
  }
  if (tensor.is_meta()) {
    refuse("on the meta device, which has no values");
  }
  const EngineOpsGuard guard;
  const IgnoredNames names;
  const auto parts = parts_of(tensor.detach());
  at::Tensor hash;
  for (const auto& part : parts) {
    if (part.layout() != c10::kStrided) {
      refuse(c10::str("of layout ", part.layout()));
    }
    const auto next = hash_strided(part);
    // Parts may be on different devices: a nested tensor's sizes are on the host.
    hash = hash.defined() ? hash.mul(31).add_(next.to(hash.device())) : next;
  }
  return hash;
}

at::Tensor saved_value_hash(const at::Tensor& tensor) {
  return is_workspace(tensor) ? at::Tensor() : value_hash(tensor);
}

}  // namespace reprise::detail
