// Meta kernels of LibTorch's fused attention operators, for which LibTorch has Python functions
// only. They allocate results and workspaces as the real kernels do, so that plans count those
// bytes.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

namespace reprise::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using FlashResult = std::tuple<at::Tensor,
                               at::Tensor,
                               at::Tensor,
                               at::Tensor,
                               c10::SymInt,
                               c10::SymInt,
                               at::Tensor,
                               at::Tensor,
                               at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

int64_t rounded_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

at::TensorOptions floats(const at::Tensor& beside) {
  return beside.options().dtype(at::kFloat);
}

at::Tensor number(const at::Tensor& beside) {
  return at::empty({}, beside.options().dtype(at::kLong));
}

/// (B, heads, T, d), with the heads of a token adjacent in memory.
at::Tensor heads_like(const at::Tensor& x) {
  return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

// On a CPU.

std::tuple<at::Tensor, at::Tensor> flash_for_cpu(const at::Tensor& query,
                                                 const at::Tensor& /*key*/,
                                                 const at::Tensor& /*value*/,
                                                 double /*dropout*/,
                                                 bool /*is_causal*/,
                                                 const OptionalTensor& /*mask*/,
                                                 std::optional<double> /*scale*/) {
  return {at::empty_like(query),
          at::empty({query.size(0), query.size(2), query.size(1)}, floats(query)).transpose(1, 2)};
}

Three flash_for_cpu_backward(const at::Tensor& /*gradient*/,
                             const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& /*out*/,
                             const at::Tensor& /*log_sums*/,
                             double /*dropout*/,
                             bool /*is_causal*/,
                             const OptionalTensor& /*mask*/,
                             std::optional<double> /*scale*/) {
  return {heads_like(query), heads_like(key), heads_like(value)};
}

// On a GPU.

FlashResult flash(const at::Tensor& query,
                  const at::Tensor& key,
                  const at::Tensor& /*value*/,
                  double /*dropout*/,
                  bool /*is_causal*/,
                  bool /*return_debug_mask*/,
                  std::optional<double> /*scale*/) {
  return {at::empty_like(query),
          at::empty({query.size(0), query.size(1), query.size(2)}, floats(query)),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          at::empty({2}, query.options().dtype(at::kLong)),
          number(query),
          at::empty({0}, query.options())};
}

struct FlashRows {
  int64_t batch, tokens, heads, kv_heads;
};

// The queries' gradients summed in float32, one number per row, and for grouped-query attention the
// gradients of keys and values for every query head. Rows and heads are padded to the kernel's
// tiles.
std::array<at::Tensor, 4> flash_workspace(const at::Tensor& query, const FlashRows& rows) {
  const int64_t tokens = rounded_up(rows.tokens, 128), width = rounded_up(query.size(-1), 32);
  const auto expanded = [&] {
    const int64_t heads = rows.heads == rows.kv_heads ? 0 : rows.heads;
    return at::empty({rows.batch, rows.tokens, heads, query.size(-1)}, query.options());
  };
  return {at::empty({rows.batch, rows.heads, tokens, width}, floats(query)),
          at::empty({rows.batch, rows.heads, tokens}, floats(query)),
          expanded(),
          expanded()};
}

FlashRows rows_of(const at::Tensor& query, const at::Tensor& key) {
  return {query.size(0), query.size(2), query.size(1), key.size(1)};
}

Three flash_backward(const at::Tensor& /*gradient*/,
                     const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const at::Tensor& /*out*/,
                     const at::Tensor& /*log_sums*/,
                     const at::Tensor& /*starts_q*/,
                     const at::Tensor& /*starts_k*/,
                     c10::SymInt /*max_q*/,
                     c10::SymInt /*max_k*/,
                     double /*dropout*/,
                     bool /*is_causal*/,
                     const at::Tensor& /*seed*/,
                     const at::Tensor& /*offset*/,
                     std::optional<double> /*scale*/) {
  const auto workspace = flash_workspace(query, rows_of(query, key));
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

FlashResult cudnn(const at::Tensor& query,
                  const at::Tensor& key,
                  const at::Tensor& /*value*/,
                  const OptionalTensor& /*bias*/,
                  bool /*compute_log_sums*/,
                  double /*dropout*/,
                  bool /*is_causal*/,
                  bool /*return_debug_mask*/,
                  std::optional<double> /*scale*/) {
  return {at::empty_like(query),
          at::empty({query.size(0), query.size(1), query.size(2), 1}, floats(query)),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          number(query),
          number(query),
          at::Tensor()};
}

Three cudnn_backward(const at::Tensor& /*gradient*/,
                     const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const at::Tensor& /*out*/,
                     const at::Tensor& /*log_sums*/,
                     const at::Tensor& /*seed*/,
                     const at::Tensor& /*offset*/,
                     const at::Tensor& /*bias*/,
                     const at::Tensor& /*starts_q*/,
                     const at::Tensor& /*starts_k*/,
                     c10::SymInt /*max_q*/,
                     c10::SymInt /*max_k*/,
                     double /*dropout*/,
                     bool /*is_causal*/,
                     std::optional<double> /*scale*/) {
  const auto workspace = flash_workspace(query, rows_of(query, key));
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(
    const at::Tensor& query,
    const at::Tensor& /*key*/,
    const at::Tensor& /*value*/,
    const OptionalTensor& /*bias*/,
    bool compute_log_sums,
    double /*dropout*/,
    bool /*is_causal*/,
    std::optional<double> /*scale*/) {
  const int64_t rows = compute_log_sums ? rounded_up(query.size(2), 32) : 0;
  return {heads_like(query),
          at::empty({query.size(0), query.size(1), rows}, floats(query)),
          number(query),
          number(query)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& /*gradient*/,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const at::Tensor& /*bias*/,
    const at::Tensor& /*out*/,
    const at::Tensor& log_sums,
    const at::Tensor& /*seed*/,
    const at::Tensor& /*offset*/,
    double /*dropout*/,
    std::array<bool, 4> /*needs*/,
    bool /*is_causal*/,
    std::optional<double> /*scale*/) {
  const auto delta = at::empty_like(log_sums);
  const auto sums = at::empty(query.sizes(), floats(query));
  return {heads_like(query), heads_like(key), heads_like(value), at::Tensor()};
}

// Packed sequences of tokens: (tokens, heads, d).

/// The arguments after the query do not matter here; how many there are depends on LibTorch's
/// version.
template <class Schema>
struct FlashPacked;

template <class Result, class... Others>
struct FlashPacked<Result(const at::Tensor&, Others...)> {
  static Result call(const at::Tensor& query, Others... /*others*/) {
    return {at::empty_like(query),
            at::empty({query.size(1), query.size(0)}, floats(query)),
            at::empty({2}, query.options().dtype(at::kLong)),
            number(query),
            at::empty({0}, query.options())};
  }
};

Three flash_packed_backward(const at::Tensor& /*gradient*/,
                            const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const at::Tensor& /*out*/,
                            const at::Tensor& /*log_sums*/,
                            const at::Tensor& /*starts_q*/,
                            const at::Tensor& /*starts_k*/,
                            c10::SymInt /*max_q*/,
                            c10::SymInt /*max_k*/,
                            double /*dropout*/,
                            bool /*is_causal*/,
                            const at::Tensor& /*seed*/,
                            const at::Tensor& /*offset*/,
                            std::optional<double> /*scale*/,
                            std::optional<c10::SymInt> /*window_left*/,
                            std::optional<c10::SymInt> /*window_right*/) {
  const auto workspace = flash_workspace(query, {1, query.size(0), query.size(1), key.size(1)});
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("_scaled_dot_product_flash_attention_for_cpu", flash_for_cpu);
  library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", flash_for_cpu_backward);
  library.impl("_scaled_dot_product_flash_attention", flash);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_backward);
  library.impl("_scaled_dot_product_cudnn_attention", cudnn);
  library.impl("_scaled_dot_product_cudnn_attention_backward", cudnn_backward);
  library.impl("_scaled_dot_product_efficient_attention", efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
  library.impl("_flash_attention_forward",
               FlashPacked<at::_ops::_flash_attention_forward::schema>::call);
  library.impl("_flash_attention_backward", flash_packed_backward);
}

}  // namespace reprise::ops
