#include "ops/attention_slices.h"

#include "ops/drop.h"

#include "memory/planned_device.h"

#include <limits>

namespace reprise::ops {

namespace {

// Scores of one slice, in float32. Backward has up to four such tensors.
constexpr int64_t kSliceBytes = int64_t{32} << 20;
constexpr int64_t kGpuSliceBytes = int64_t{128} << 20;
// Short enough that a slice leaves most keys out which none of its queries sees.
constexpr int64_t kMostQueries = 256;

}  // namespace

int64_t AttentionSlices::queries_of_slice() const {
  const int64_t bytes = memory::is_for_cuda(q_.device()) ? kGpuSliceBytes : kSliceBytes;
  const int64_t keys =
      options_.window > 0 ? std::min(total_, options_.window + kMostQueries) : total_;
  const int64_t query_bytes = batch_ * heads_ * keys * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(bytes / query_bytes, 1, kMostQueries);
}

// (B or 1, 1, 1, queries, keys) bool.
at::Tensor AttentionSlices::unseen(const AttentionSlice& slice, const at::Tensor& distances) const {
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

at::Tensor AttentionSlices::scores(const AttentionSlice& slice, at::Tensor* cap_slopes) const {
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

void AttentionSlices::drop(at::Tensor& of_slice, const AttentionSlice& slice) const {
  if (options_.dropout > 0) {
    drop_into(of_slice, of_slice, *seed_, options_.dropout, slice.draw, /*adds=*/false);
    of_slice.mul_(1 / (1 - options_.dropout));
  }
}

}  // namespace reprise::ops
