// The KV cache of a generation: keys and values of all earlier positions, allocated once for the
// longest length.
#pragma once

#include <reprise/export.h>
#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace reprise {

class REPRISE_API KvCache {
 public:
  /// A cache for `batch` sequences of at most `capacity` positions: 2 * layers tensors
  /// (batch, kv_heads, capacity, head_dim).
  KvCache(const ModelConfig& config, int64_t batch, int64_t capacity, at::TensorOptions options);

  /// Bytes that one position of one sequence takes.
  static int64_t bytes_per_position(const ModelConfig& config, at::ScalarType dtype);

  int64_t length() const { return length_; }  ///< positions in the cache, of all layers
  int64_t capacity() const { return capacity_; }
  int64_t batch() const;

  /// Appends keys and values (B, kv_heads, T, head_dim) of one layer after the first `length()`
  /// positions, and returns views of all of them (B, kv_heads, length() + T, head_dim).
  std::pair<at::Tensor, at::Tensor> append(int64_t layer, const at::Tensor& k, const at::Tensor& v);
  /// Call it after all layers have appended `positions` positions.
  void advance(int64_t positions);

  /// Keeps these rows of the batch, in this order; rows may repeat.
  void select_rows(const at::Tensor& rows);

 private:
  std::vector<at::Tensor> keys_, values_;
  int64_t length_ = 0;
  int64_t capacity_;
};

}  // namespace reprise
