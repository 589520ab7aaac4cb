#include "ops/sliced_attention.h"

#include "ops/drop.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace reprise::ops {

namespace {

// Scores of one slice, in float32. Backward has up to four such tensors.
constexpr int64_t kSliceBytes = int64_t{32} << 20;
constexpr int64_t kGpuSliceBytes = int64_t{128} << 20;
// Short enough that a slice leaves most keys out which none of its queries sees.
constexpr int64_t kMostQueries = 256;

// The queries [query, query + queries) of the input, and the keys that one of them sees.
struct Slice {
  int64_t query, queries, key, keys;
  int64_t draw;  // number of its first probability among all that dropout decides
};

using OptionalTensor = std::optional<at::Tensor>;

// What both ways compute of a slice. Heads that share keys are rows of one matrix, of which there
// is one for each (batch, key head): "rows" are (B kv_heads, heads / kv_heads * queries, …).
class Slices {
 public:
  Slices(const at::Tensor& q,
         const at::Tensor& k,
         const at::Tensor& v,
         SlicedAttention options,
         OptionalTensor seed)
      : batch_(q.size(0)),
        heads_(q.size(1)),
        kv_heads_(k.size(1)),
        length_(q.size(2)),
        total_(k.size(2)),
        q_(q),
        keys_(matrices_of(k)),
        values_(matrices_of(v)),
        options_(std::move(options)),
        seed_(std::move(seed)) {}

  template <class Visit>
  void for_each(Visit&& visit) const {
    const int64_t step = queries_of_slice();
    int64_t draw = 0;
    for (int64_t query = 0; query < length_; query += step) {
      const int64_t count = std::min(step, length_ - query), past = total_ - length_;
      const int64_t key =
          options_.window > 0 ? std::max<int64_t>(0, past + query - options_.window + 1) : 0;
      const Slice slice{query, count, key, past + query + count - key, draw};
      visit(slice);
      draw += batch_ * heads_ * count * slice.keys;
    }
  }

  // (B, heads, T, …) -> rows of the slice.
  at::Tensor rows(const at::Tensor& tensor, const Slice& slice) const {
    const int64_t width = tensor.dim() == 4 ? tensor.size(3) : 1;
    return tensor.narrow(2, slice.query, slice.queries)
        .reshape({batch_ * kv_heads_, heads_ / kv_heads_ * slice.queries, width});
  }
  // The inverse: writes rows of a slice into (B, heads, T, …).
  void put(const at::Tensor& tensor, const Slice& slice, const at::Tensor& values) const {
    auto part = tensor.narrow(2, slice.query, slice.queries);
    part.copy_(values.view(part.sizes()));
  }

  at::Tensor queries(const Slice& slice) const { return rows(q_, slice); }
  at::Tensor keys(const Slice& slice) const { return part(keys_, slice); }
  at::Tensor values(const Slice& slice) const { return part(values_, slice); }
  static at::Tensor part(const at::Tensor& matrices, const Slice& slice) {
    return matrices.narrow(1, slice.key, slice.keys);
  }

  // Rows of scores in the wide type, -inf where a query does not see a key. `cap_slopes`, if not
  // null, becomes the derivative of the cap.
  at::Tensor scores(const Slice& slice, at::Tensor* cap_slopes = nullptr) const;
  // Zeroes what dropout does not keep, and scales the rest.
  void drop(at::Tensor& of_slice, const Slice& slice) const {
    if (options_.dropout > 0) {
      drop_into(of_slice, of_slice, *seed_, options_.dropout, slice.draw, /*adds=*/false);
      of_slice.mul_(1 / (1 - options_.dropout));
    }
  }

  // Zeroed sums over slices, (B kv_heads, S, d).
  at::Tensor sums() const { return at::zeros(keys_.sizes(), keys_.options().dtype(wide_type(q_))); }
  // As gradient of k or v.
  at::Tensor gradient(const at::Tensor& sums) const {
    return sums.to(q_.scalar_type()).view({batch_, kv_heads_, total_, -1});
  }

 private:
  // Copies only if batch and heads are not one dimension in memory.
  static at::Tensor matrices_of(const at::Tensor& x) { return x.flatten(0, 1); }
  int64_t queries_of_slice() const;
  at::Tensor unseen(const Slice& slice, const at::Tensor& distances) const;

  int64_t batch_, heads_, kv_heads_, length_, total_;
  at::Tensor q_, keys_, values_;
  SlicedAttention options_;
  OptionalTensor seed_;
};

int64_t Slices::queries_of_slice() const {
  const int64_t bytes = memory::is_for_cuda(q_.device()) ? kGpuSliceBytes : kSliceBytes;
  const int64_t keys =
      options_.window > 0 ? std::min(total_, options_.window + kMostQueries) : total_;
  const int64_t query_bytes = batch_ * heads_ * keys * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(bytes / query_bytes, 1, kMostQueries);
}

// (B or 1, 1, 1, queries, keys) bool.
at::Tensor Slices::unseen(const Slice& slice, const at::Tensor& distances) const {
  auto hidden = distances > 0;
  if (options_.window > 0) {
    hidden.logical_or_(distances <= -options_.window);
  }
  if (options_.runs.defined()) {
    const auto of_keys = options_.runs.narrow(1, slice.key, slice.keys).unsqueeze(1);
    const auto of_queries =
        options_.runs.narrow(1, total_ - length_ + slice.query, slice.queries).unsqueeze(2);
    hidden = hidden.logical_or(of_keys != of_queries).unsqueeze(1).unsqueeze(1);
  }
  return hidden;
}

at::Tensor Slices::scores(const Slice& slice, at::Tensor* cap_slopes) const {
  const auto type = wide_type(q_);
  const auto products = at::bmm(queries(slice), keys(slice).transpose(1, 2));
  auto scores = products.to(type).mul_(options_.scale);
  if (options_.softcap > 0) {
    scores.div_(options_.softcap).tanh_();
    if (cap_slopes != nullptr) {
      *cap_slopes = scores.square().neg_().add_(1);
    }
    scores.mul_(options_.softcap);
  }
  const int64_t group = heads_ / kv_heads_;
  auto by_head = scores.view({batch_, kv_heads_, group, slice.queries, slice.keys});
  const auto places = q_.options().dtype(at::kLong);
  const int64_t begin = total_ - length_ + slice.query;
  const auto distances = at::arange(slice.key, slice.key + slice.keys, places) -
                         at::arange(begin, begin + slice.queries, places).unsqueeze(1);
  if (options_.key_bias.defined()) {
    const auto bias = options_.key_bias.narrow(2, slice.key, slice.keys).to(type);
    by_head.add_(bias.unflatten(1, {kv_heads_, group}).unsqueeze(3));
  }
  by_head.masked_fill_(unseen(slice, distances), -std::numeric_limits<double>::infinity());
  return scores;
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
  const Slices slices(q,
                      k,
                      v,
                      {.scale = scale,
                       .softcap = softcap,
                       .window = window,
                       .runs = runs.value_or(at::Tensor()),
                       .key_bias = key_bias.value_or(at::Tensor()),
                       .dropout = dropout},
                      seed);
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2);
  const auto out = at::empty({batch, length, heads, q.size(3)}, q.options()).transpose(1, 2);
  const auto log_sums = at::empty({batch, heads, length}, q.options().dtype(wide_type(q)));
  slices.for_each([&](const Slice& slice) {
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
  const Slices slices(q,
                      k,
                      v,
                      {.scale = scale,
                       .softcap = softcap,
                       .window = window,
                       .runs = runs.value_or(at::Tensor()),
                       .key_bias = key_bias.value_or(at::Tensor()),
                       .dropout = dropout},
                      seed);
  const auto type = q.scalar_type(), wide = wide_type(q);
  const auto for_q = at::empty_like(out);
  const auto for_k = slices.sums(), for_v = slices.sums();
  slices.for_each([&](const Slice& slice) {
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
    Slices::part(for_k, slice).add_(at::bmm(narrow.transpose(1, 2), slices.queries(slice)));
    slices.drop(probabilities, slice);
    Slices::part(for_v, slice).add_(at::bmm(probabilities.to(type).transpose(1, 2), slope));
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
      "float "
      "scale, float softcap, int window, float dropout, Tensor? seed) -> (Tensor out, Tensor "
      "log_sums)");
  library.def(
      "sliced_attention_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor "
      "out, Tensor log_sums, Tensor? runs, Tensor? key_bias, float scale, float softcap, int "
      "window, "
      "float dropout, Tensor? seed) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("sliced_attention", reference::sliced_attention);
  library.impl("sliced_attention_backward", reference::sliced_attention_backward);
}

}  // namespace reprise::ops
