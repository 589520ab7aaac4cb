// Slices of queries, over which sliced_attention() goes: their places, their scores, and what a
// slice reads and writes of whole tensors.
#pragma once

#include "ops/operator.h"
#include "ops/sliced_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace reprise::ops {

/// The queries [query, query + queries) of the input, and the keys that one of them sees.
struct AttentionSlice {
  int64_t query, queries, key, keys;
  int64_t draw;  // number of its first probability among all that dropout decides
};

/// What both ways compute of a slice. Heads that share keys are rows of one matrix, of which there
/// is one for each (batch, key head): "rows" are (B kv_heads, heads / kv_heads * queries, …).
class AttentionSlices {
 public:
  AttentionSlices(const at::Tensor& q,
                  const at::Tensor& k,
                  const at::Tensor& v,
                  SlicedAttention options,
                  std::optional<at::Tensor> seed)
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
      const AttentionSlice slice{query, count, key, past + query + count - key, draw};
      visit(slice);
      draw += batch_ * heads_ * count * slice.keys;
    }
  }

  // (B, heads, T, …) -> rows of the slice.
  at::Tensor rows(const at::Tensor& tensor, const AttentionSlice& slice) const {
    const int64_t width = tensor.dim() == 4 ? tensor.size(3) : 1;
    return tensor.narrow(2, slice.query, slice.queries)
        .reshape({batch_ * kv_heads_, heads_ / kv_heads_ * slice.queries, width});
  }
  // The inverse: writes rows of a slice into (B, heads, T, …).
  void put(const at::Tensor& tensor, const AttentionSlice& slice, const at::Tensor& values) const {
    auto part = tensor.narrow(2, slice.query, slice.queries);
    part.copy_(values.view(part.sizes()));
  }

  at::Tensor queries(const AttentionSlice& slice) const { return rows(q_, slice); }
  at::Tensor keys(const AttentionSlice& slice) const { return part(keys_, slice); }
  at::Tensor values(const AttentionSlice& slice) const { return part(values_, slice); }
  static at::Tensor part(const at::Tensor& matrices, const AttentionSlice& slice) {
    return matrices.narrow(1, slice.key, slice.keys);
  }

  // Rows of scores in the wide type, -inf where a query does not see a key. `cap_slopes`, if not
  // null, becomes the derivative of the cap.
  at::Tensor scores(const AttentionSlice& slice, at::Tensor* cap_slopes = nullptr) const;
  // Zeroes what dropout does not keep, and scales the rest.
  void drop(at::Tensor& of_slice, const AttentionSlice& slice) const;

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
  at::Tensor unseen(const AttentionSlice& slice, const at::Tensor& distances) const;

  int64_t batch_, heads_, kv_heads_, length_, total_;
  at::Tensor q_, keys_, values_;
  SlicedAttention options_;
  std::optional<at::Tensor> seed_;
};

}  // namespace reprise::ops
