#include "ops/cuda/products.h"
#include "ops/reference.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

struct Turn {
  int64_t dims;
  bool interleaved, is_backward;
};

Rope::Part part_of(const at::Tensor& heads) {
  if (!heads.defined()) {
    return {};
  }
  return {.data = heads.data_ptr(),
          .heads = heads.size(1),
          .batch_stride = heads.stride(0),
          .head_stride = heads.stride(1),
          .token_stride = heads.stride(2)};
}

void move_heads(const at::Tensor& product,
                const at::Tensor& query,
                const at::Tensor& key,
                const at::Tensor& value,
                const at::Tensor& cos,
                const at::Tensor& sin,
                const Turn& turn) {
  const auto c = cos.contiguous(), s = sin.contiguous();
  launch(Rope{.type = type_of(product),
              .is_backward = turn.is_backward,
              .interleaved = turn.interleaved,
              .query = part_of(query),
              .key = part_of(key),
              .value = part_of(value),
              .product = product.data_ptr(),
              .product_stride = product.size(-1),
              .cos = c.const_data_ptr<float>(),
              .sin = s.const_data_ptr<float>(),
              .batch = query.size(0),
              .length = query.size(2),
              .head_dim = query.size(3),
              .dims = turn.dims,
              .tables_per_batch = c.size(0) > 1},
         stream_of(product));
}

// Not in the product's epilogue: with adapters that add nothing, bits must be those without.
void add_adapters(at::Tensor& product, const at::Tensor& added) {
  const bool is_served = has_kernel(added) && added.is_contiguous();
  const AddRounded job{.type = type_of(product),
                       .added_type = type_of(added),
                       .x = product.const_data_ptr(),
                       .added = is_served ? added.const_data_ptr() : nullptr,
                       .out = product.mutable_data_ptr(),
                       .count = product.numel()};
  if (is_served && can_launch(job)) {
    launch(job, stream_of(product));
  } else {
    product.add_(added);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const std::optional<at::Tensor>& added,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t turned,
                                                        bool interleaved) {
  if (!projects(x, weight, bias)) {
    return ops::reference::qkv_rope(
        x, weight, bias, added, cos, sin, heads, kv_heads, turned, interleaved);
  }
  const c10::DeviceGuard device(x.device());
  auto product = project(x, weight, bias, std::nullopt);
  if (added) {
    add_adapters(product, *added);
  }
  const int64_t batch = x.size(0), length = x.size(1);
  const int64_t head_dim = product.size(-1) / (heads + 2 * kv_heads);
  const auto parts = product.view({batch, length, heads + 2 * kv_heads, head_dim})
                         .transpose(1, 2)
                         .split_with_sizes({heads, kv_heads, kv_heads}, 1);
  // In place: values are where they belong.
  move_heads(product, parts[0], parts[1], {}, cos, sin, {turned, interleaved, false});
  return {parts[0], parts[1], parts[2]};
}

// A gradient whose heads' values are adjacent.
at::Tensor with_adjacent_values(const at::Tensor& gradient) {
  return gradient.stride(-1) == 1 ? gradient : gradient.contiguous();
}

at::Tensor qkv_rope_backward(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             int64_t turned,
                             bool interleaved) {
  const bool is_one_type =
      query.scalar_type() == key.scalar_type() && query.scalar_type() == value.scalar_type();
  if (!has_kernel(query) || !is_one_type) {
    return ops::reference::qkv_rope_backward(query, key, value, cos, sin, turned, interleaved);
  }
  const c10::DeviceGuard device(query.device());
  const auto q = with_adjacent_values(query), k = with_adjacent_values(key),
             v = with_adjacent_values(value);
  auto of_product = at::empty(
      {q.size(0), q.size(2), (q.size(1) + k.size(1) + v.size(1)) * q.size(3)}, query.options());
  move_heads(of_product, q, k, v, cos, sin, {turned, interleaved, true});
  return of_product;
}

// The heads of a token are adjacent in the result, as in a product.
at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                int64_t turned,
                bool interleaved,
                bool back) {
  if (!has_kernel(x)) {
    return ops::reference::rope(x, cos, sin, turned, interleaved, back);
  }
  const c10::DeviceGuard device(x.device());
  const auto result = at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options());
  const auto heads = result.transpose(1, 2);
  const Turn turn{turned, interleaved, back};
  if (back) {  // gradients, which lie as attention left them
    move_heads(result.flatten(2), with_adjacent_values(x), {}, {}, cos, sin, turn);
  } else {
    const auto product = x.transpose(1, 2).contiguous().flatten(2);
    move_heads(product, heads, {}, {}, cos, sin, turn);
  }
  return heads;
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("qkv_rope", qkv_rope);
  library.impl("qkv_rope_backward", qkv_rope_backward);
  library.impl("rope", rope);
}

}  // namespace reprise::cuda
