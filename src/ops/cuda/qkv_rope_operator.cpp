// reprise::qkv_rope, its gradient, and reprise::rope on a GPU.
#include "ops/cuda/matmul/linear.h"
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/linear/adapter_products.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

struct Rotation {
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

// Between the product and its heads, rotating queries and keys on the way.
void rotate_heads(const at::Tensor& product,
                  const at::Tensor& query,
                  const at::Tensor& key,
                  const at::Tensor& value,
                  const at::Tensor& cos,
                  const at::Tensor& sin,
                  const Rotation& rotation) {
  const auto c = cos.contiguous(), s = sin.contiguous();
  launch(Rope{.type = type_of(product),
              .is_backward = rotation.is_backward,
              .interleaved = rotation.interleaved,
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
              .dims = rotation.dims,
              .tables_per_batch = c.size(0) > 1},
         stream_of(product));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t rotary_dims,
                                                        bool interleaved,
                                                        at::TensorList a,
                                                        at::TensorList b,
                                                        at::IntArrayRef starts,
                                                        at::ArrayRef<double> scales,
                                                        double dropout,
                                                        const std::optional<at::Tensor>& seed) {
  if (!ops::serves_linear(x, weight, bias)) {
    return ops::reference::qkv_rope(x,
                                    weight,
                                    bias,
                                    cos,
                                    sin,
                                    heads,
                                    kv_heads,
                                    rotary_dims,
                                    interleaved,
                                    a,
                                    b,
                                    starts,
                                    scales,
                                    dropout,
                                    seed);
  }
  const c10::DeviceGuard device(x.device());
  auto product = run_linear(x, weight, bias, std::nullopt);
  if (!a.empty()) {
    ops::add_adapters(product, x, ops::adapters_of(a, b, starts, scales, dropout, seed));
  }
  const auto [query, key, value] = ops::split_heads(product, heads, kv_heads);
  // In place; values stay where they are.
  rotate_heads(product, query, key, {}, cos, sin, {rotary_dims, interleaved, false});
  return {query, key, value};
}

at::Tensor qkv_rope_backward(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             int64_t rotary_dims,
                             bool interleaved) {
  if (!ops::serves_qkv_rope_backward(query, key, value)) {
    return ops::reference::qkv_rope_backward(query, key, value, cos, sin, rotary_dims, interleaved);
  }
  const c10::DeviceGuard device(query.device());
  const auto [q, k, v, of_product] = ops::qkv_rope_backward_tensors(query, key, value);
  rotate_heads(of_product, q, k, v, cos, sin, {rotary_dims, interleaved, true});
  return of_product;
}

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                int64_t rotary_dims,
                bool interleaved,
                bool back) {
  if (!ops::are_kernel_types(x)) {
    return ops::reference::rope(x, cos, sin, rotary_dims, interleaved, back);
  }
  const c10::DeviceGuard device(x.device());
  const auto [result, input] = ops::rope_tensors(x, back);
  auto heads = result.transpose(1, 2);
  const Rotation rotation{rotary_dims, interleaved, back};
  if (back) {
    rotate_heads(result.flatten(2), input, {}, {}, cos, sin, rotation);
  } else {
    rotate_heads(input.flatten(2), heads, {}, {}, cos, sin, rotation);
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
