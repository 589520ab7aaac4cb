#include "model/generation/kv_cache.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

namespace reprise {

KvCache::KvCache(const ModelConfig& config,
                 int64_t batch,
                 int64_t capacity,
                 at::TensorOptions options)
    : capacity_(capacity) {
  TORCH_CHECK(batch > 0 && capacity > 0,
              "[kv_cache] expected at least one sequence and one position, got ",
              batch,
              " and ",
              capacity);
  keys_.reserve(static_cast<size_t>(config.layers));
  values_.reserve(static_cast<size_t>(config.layers));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    keys_.push_back(at::empty({batch, config.kv_heads, capacity, config.head_dim}, options));
    values_.push_back(at::empty_like(keys_.back()));
  }
}

int64_t KvCache::bytes_per_position(const ModelConfig& config, at::ScalarType dtype) {
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  return 2 * config.layers * config.kv_heads * config.head_dim * size;
}

int64_t KvCache::batch() const {
  return keys_.front().size(0);
}

std::pair<at::Tensor, at::Tensor> KvCache::append(int64_t layer,
                                                  const at::Tensor& k,
                                                  const at::Tensor& v) {
  const int64_t end = length_ + k.size(2);
  TORCH_CHECK(k.size(0) == batch(), "[kv_cache] made for ", batch(), " sequences, got ", k.size(0));
  TORCH_CHECK(end <= capacity_,
              "[kv_cache] ",
              end,
              " positions do not fit into a cache of ",
              capacity_,
              ": make it as long as the prompt and all new tokens together.");
  auto& keys = keys_.at(static_cast<size_t>(layer));
  auto& values = values_.at(static_cast<size_t>(layer));
  keys.slice(2, length_, end).copy_(k);
  values.slice(2, length_, end).copy_(v);
  return {keys.slice(2, 0, end), values.slice(2, 0, end)};
}

void KvCache::advance(int64_t positions) {
  length_ += positions;
}

void KvCache::select_rows(const at::Tensor& rows) {
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) {
      tensor = tensor.index_select(0, rows);
    }
  }
}

}  // namespace reprise
