#include "checkpoint/offload/compressed.h"

#include "checkpoint/offload/placeholder.h"
#include "checkpoint/ops/engine_ops.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <limits>

namespace reprise::detail {
namespace {

constexpr int64_t kBits = 8;
constexpr double kSteps = 127;
/// Quantizing needs temporary memory of a few times this many blocks in float32.
constexpr int64_t kChunkRows = (int64_t{4} << 20) / kQuantizedBlock;

/// The elements of a dense tensor in storage order.
at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

/// Eight bools per byte; the remainder stays one byte each.
at::Tensor pack_bits(const at::Tensor& masks) {
  const int64_t rows = masks.numel() / kBits;
  auto packed = at::zeros({rows + masks.numel() % kBits}, masks.options().dtype(at::kByte));
  const auto columns = masks.narrow(0, 0, rows * kBits).view({rows, kBits});
  auto bits = packed.narrow(0, 0, rows);
  for (int64_t i = 0; i < kBits; ++i) {
    bits.bitwise_or_(columns.select(1, i).to(at::kByte).bitwise_left_shift_(i));
  }
  packed.narrow(0, rows, masks.numel() % kBits)
      .copy_(masks.narrow(0, rows * kBits, masks.numel() % kBits));
  return packed;
}

void unpack_bits(const at::Tensor& packed, at::Tensor masks) {
  const int64_t rows = masks.numel() / kBits;
  auto columns = masks.narrow(0, 0, rows * kBits).view({rows, kBits});
  const auto bits = packed.narrow(0, 0, rows);
  for (int64_t i = 0; i < kBits; ++i) {
    columns.select(1, i).copy_(bits.bitwise_right_shift(i).bitwise_and_(1));
  }
  masks.narrow(0, rows * kBits, masks.numel() % kBits)
      .copy_(packed.narrow(0, rows, masks.numel() % kBits));
}

/// Calls `body(first value, rows, columns)` for chunks whose rows are blocks, and once more for the
/// last, shorter block.
template <class Body>
void for_each_chunk(const at::Tensor& values, const Body& body) {
  const int64_t blocks = values.numel() / kQuantizedBlock;
  for (int64_t begin = 0; begin < blocks; begin += kChunkRows) {
    const int64_t rows = std::min(kChunkRows, blocks - begin);
    body(begin * kQuantizedBlock, rows, kQuantizedBlock);
  }
  if (const int64_t rest = values.numel() % kQuantizedBlock; rest > 0) {
    body(blocks * kQuantizedBlock, 1, rest);
  }
}

at::Tensor rows_of(const at::Tensor& values, int64_t first, int64_t rows, int64_t columns) {
  return values.narrow(0, first, rows * columns).view({rows, columns});
}

/// The largest magnitude of a block becomes 127. A block with a NaN or an infinity gets a NaN scale
/// and is restored as all NaN, so that a step that went wrong is not silently repaired.
void quantize(const at::Tensor& values, at::Tensor& quantized, at::Tensor& scales) {
  for_each_chunk(values, [&](int64_t first, int64_t rows, int64_t columns) {
    const auto chunk = rows_of(values, first, rows, columns).to(at::kFloat);
    auto scale = scales.narrow(0, first / kQuantizedBlock, rows).view({rows, 1});
    scale.copy_(chunk.abs().amax({1}, /*keepdim=*/true).div_(kSteps));
    const auto step = scale.masked_fill(scale == 0, 1);
    rows_of(quantized, first, rows, columns)
        .copy_((chunk / step).nan_to_num_(0, 0, 0).round_().clamp_(-kSteps, kSteps));
    scale.masked_fill_(scale.isinf(), std::numeric_limits<double>::quiet_NaN());
  });
}

void dequantize(const at::Tensor& quantized, const at::Tensor& scales, at::Tensor values) {
  for_each_chunk(values, [&](int64_t first, int64_t rows, int64_t columns) {
    const auto scale = scales.narrow(0, first / kQuantizedBlock, rows).view({rows, 1});
    rows_of(values, first, rows, columns)
        .copy_(rows_of(quantized, first, rows, columns).to(at::kFloat).mul_(scale));
  });
}

size_t bytes_in(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.storage().nbytes() : 0;
}

}  // namespace

Compressed::Form Compressed::form_of(const at::Tensor& tensor) {
  if (!supports_placeholder(tensor) || !tensor.is_non_overlapping_and_dense()) {
    return Form::None;
  }
  const bool is_plain_float =
      tensor.is_floating_point() && tensor.element_size() >= 2 && !tensor.is_neg();
  return tensor.scalar_type() == at::kBool ? Form::Bits : is_plain_float ? Form::Int8 : Form::None;
}

/// The largest temporaries of pack_bits, quantize and their inverses.
Compressed::Footprint Compressed::footprint_of(const at::Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.numel());
  if (form_of(tensor) == Form::Bits) {
    const size_t rows = count / kBits;
    return {.parts = {rows + count % kBits}, .making = rows, .restoring = rows};
  }
  const size_t blocks = (count + kQuantizedBlock - 1) / kQuantizedBlock;
  const size_t rows = std::min(blocks, static_cast<size_t>(kChunkRows));
  const size_t chunk = sizeof(float) * std::min(count, rows * kQuantizedBlock);
  const bool is_cast = tensor.scalar_type() != at::kFloat;
  return {.parts = {count, sizeof(float) * blocks},
          .making = chunk + (is_cast ? chunk : 0) + 2 * sizeof(float) * rows,
          .restoring = chunk};
}

Compressed::Compressed(const at::Tensor& tensor) : form_(form_of(tensor)) {
  const EngineOpsGuard guard;
  const auto values = flat(tensor.detach());
  if (form_ == Form::Bits) {
    values_ = pack_bits(values);
  } else {
    const int64_t blocks = (values.numel() + kQuantizedBlock - 1) / kQuantizedBlock;
    values_ = at::empty({values.numel()}, values.options().dtype(at::kChar));
    scales_ = at::empty({blocks}, values.options().dtype(at::kFloat));
    quantize(values, values_, scales_);
  }
}

at::Tensor Compressed::restore(const at::Tensor& placeholder) const {
  const EngineOpsGuard guard;
  auto values = at::empty({placeholder.numel()}, placeholder.options());
  if (form_ == Form::Bits) {
    unpack_bits(values_, values);
  } else {
    dequantize(values_, scales_, values);
  }
  auto tensor = with_storage(placeholder, values.storage());
  tensor.unsafeGetTensorImpl()->set_storage_offset(0);
  return tensor;
}

size_t Compressed::bytes() const {
  return bytes_in(values_) + bytes_in(scales_);
}

}  // namespace reprise::detail
