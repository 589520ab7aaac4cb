#include "ops/sliced_attention.h"

#include "ops/attention_slices.h"
#include "ops/drop.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

namespace reprise::ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

SlicedAttention options_of(const OptionalTensor& runs,
                           const OptionalTensor& key_bias,
                           double scale,
                           double softcap,
                           int64_t window,
                           double dropout) {
  return {.scale = scale,
          .softcap = softcap,
          .window = window,
          .runs = runs.value_or(at::Tensor()),
          .key_bias = key_bias.value_or(at::Tensor()),
          .dropout = dropout};
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor> sliced_attention(const at::Tensor& q,
                                                    const at::Tensor& k,
                                                    const at::Tensor& v,
                                                    const OptionalTensor& runs,
                                                    const OptionalTensor& key_bias,
                                                    double scale,
                                                    double softcap,
                                                    int64_t window,
                                                    double dropout,
                                                    const OptionalTensor& seed) {
  const AttentionSlices slices(
      q, k, v, options_of(runs, key_bias, scale, softcap, window, dropout), seed);
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2);
  const auto out = at::empty({batch, length, heads, q.size(3)}, q.options()).transpose(1, 2);
  const auto log_sums = at::empty({batch, heads, length}, q.options().dtype(wide_type(q)));
  slices.for_each([&](const AttentionSlice& slice) {
    auto probabilities = slices.scores(slice);
    const auto largest = probabilities.amax({-1}, /*keepdim=*/true);
    probabilities.sub_(largest).exp_();
    const auto sums = probabilities.sum({-1}, /*keepdim=*/true);
    probabilities.div_(sums);
    slices.put(log_sums, slice, sums.log().add_(largest));
    slices.drop(probabilities, slice);
    slices.put(out, slice, at::bmm(probabilities.to(q.scalar_type()), slices.values(slice)));
  });
  return {out, log_sums};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> sliced_attention_backward(
    const at::Tensor& gradient,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sums,
    const OptionalTensor& runs,
    const OptionalTensor& key_bias,
    double scale,
    double softcap,
    int64_t window,
    double dropout,
    const OptionalTensor& seed) {
  const AttentionSlices slices(
      q, k, v, options_of(runs, key_bias, scale, softcap, window, dropout), seed);
  const auto type = q.scalar_type(), wide = wide_type(q);
  const auto for_q = at::empty_like(out);
  const auto for_k = slices.sums(), for_v = slices.sums();
  slices.for_each([&](const AttentionSlice& slice) {
    const auto slope = slices.rows(gradient, slice);
    at::Tensor cap_slopes;
    auto probabilities = slices.scores(slice, &cap_slopes);
    probabilities.sub_(slices.rows(log_sums, slice)).exp_();
    auto for_scores = at::bmm(slope, slices.values(slice).transpose(1, 2)).to(wide);
    slices.drop(for_scores, slice);
    // The gradient through the sums of the softmax, for each row.
    const auto total = (slope.to(wide) * slices.rows(out, slice)).sum({-1}, /*keepdim=*/true);
    for_scores.sub_(total).mul_(probabilities).mul_(scale);
    if (cap_slopes.defined()) {
      for_scores.mul_(cap_slopes);
    }
    const auto narrow = for_scores.to(type);
    slices.put(for_q, slice, at::bmm(narrow, slices.keys(slice)));
    AttentionSlices::part(for_k, slice)
        .add_(at::bmm(narrow.transpose(1, 2), slices.queries(slice)));
    slices.drop(probabilities, slice);
    AttentionSlices::part(for_v, slice)
        .add_(at::bmm(probabilities.to(type).transpose(1, 2), slope));
  });
  return {for_q, slices.gradient(for_k), slices.gradient(for_v)};
}

}  // namespace reference

namespace {

struct SlicedAttentionBackward : torch::autograd::Node {
  SavedVariable q, k, v, out, log_sums, runs, key_bias, seed;
  double scale = 1, softcap = 0, dropout = 0;
  int64_t window = 0;

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) {
      return variable_list(3);
    }
    check_differentiated_once("sliced_attention");
    static const auto op = find_operator<decltype(reference::sliced_attention_backward)>(
        "reprise::sliced_attention_backward");
    auto [for_q, for_k, for_v] = op.call(gradients[0],
                                         q.unpack(),
                                         k.unpack(),
                                         v.unpack(),
                                         out.unpack(reprise::detail::pointer_to(*this)),
                                         log_sums.unpack(),
                                         as_optional(runs.unpack()),
                                         as_optional(key_bias.unpack()),
                                         scale,
                                         softcap,
                                         window,
                                         dropout,
                                         as_optional(seed.unpack()));
    return {for_q, for_k, for_v};
  }
  void release_variables() override {
    for (auto* saved : {&q, &k, &v, &out, &log_sums, &runs, &key_bias, &seed}) {
      saved->reset_data();
    }
  }
  std::string name() const override { return "SlicedAttentionBackward"; }
};

void check(const at::Tensor& q,
           const at::Tensor& k,
           const at::Tensor& v,
           const SlicedAttention& options) {
  TORCH_CHECK(
      q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
          q.size(1) % k.size(1) == 0 && q.size(2) <= k.size(2) && q.size(3) == k.size(3) &&
          q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
      "[sliced_attention] expected q (B, heads, T, d), and k and v (B, kv_heads, S, d) with "
      "S of at least T, of one type, got ",
      q.toString(),
      q.sizes(),
      ", ",
      k.toString(),
      k.sizes(),
      " and ",
      v.toString(),
      v.sizes());
  const auto& runs = options.runs;
  TORCH_CHECK(!runs.defined() || (runs.dim() == 2 && runs.size(0) == k.size(0) &&
                                  runs.size(1) == k.size(2) && !runs.is_floating_point()),
              "[sliced_attention] runs: expected an integer for each key, got ",
              runs.toString(),
              runs.sizes());
  const auto& bias = options.key_bias;
  TORCH_CHECK(
      !bias.defined() || (bias.dim() == 3 && (bias.size(0) == 1 || bias.size(0) == k.size(0)) &&
                          bias.size(1) == q.size(1) && bias.size(2) == k.size(2)),
      "[sliced_attention] key_bias: expected a number for each of ",
      q.size(1),
      " heads and ",
      k.size(2),
      " keys, got ",
      bias.sizes());
  TORCH_CHECK(
      options.softcap >= 0 && options.window >= 0 && options.dropout >= 0 && options.dropout < 1,
      "[sliced_attention] expected a softcap and a window of at least 0 and a dropout below "
      "1, got ",
      options.softcap,
      ", ",
      options.window,
      " and ",
      options.dropout);
}

}  // namespace

at::Tensor sliced_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const SlicedAttention& options) {
  check(q, k, v, options);
  static const auto op =
      find_operator<decltype(reference::sliced_attention)>("reprise::sliced_attention");
  const auto seed = options.dropout > 0 ? draw_seed(q) : at::Tensor();
  const auto node = node_over<SlicedAttentionBackward>(q, k, v);
  if (node != nullptr) {
    node->q = saved_input(q);
    node->k = saved_input(k);
    node->v = saved_input(v);
    node->runs = saved_input(options.runs);
    node->key_bias = saved_input(options.key_bias);
    node->seed = saved_input(seed);
    node->scale = options.scale;
    node->softcap = options.softcap;
    node->window = options.window;
    node->dropout = options.dropout;
  }
  at::Tensor out, log_sums;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::tie(out, log_sums) = op.call(q,
                                      k,
                                      v,
                                      as_optional(options.runs),
                                      as_optional(options.key_bias),
                                      options.scale,
                                      options.softcap,
                                      options.window,
                                      options.dropout,
                                      as_optional(seed));
  }
  if (node != nullptr) {
    torch::autograd::set_history(out, node);
    node->out = SavedVariable(out, /*is_output=*/true);
    node->log_sums = saved_input(log_sums);
  }
  return out;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "sliced_attention(Tensor query, Tensor key, Tensor value, Tensor? runs, Tensor? key_bias, "
      "float scale, float softcap, int window, float dropout, Tensor? seed) -> "
      "(Tensor out, Tensor log_sums)");
  library.def(
      "sliced_attention_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor "
      "out, Tensor log_sums, Tensor? runs, Tensor? key_bias, float scale, float softcap, "
      "int window, float dropout, Tensor? seed) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("sliced_attention", reference::sliced_attention);
  library.impl("sliced_attention_backward", reference::sliced_attention_backward);
}

}  // namespace reprise::ops
