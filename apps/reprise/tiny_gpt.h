// A small character-level transformer, written with LibTorch as any program would write it.
#pragma once

#include <reprise/options.h>

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::app {

struct TinyGptOptions {
  int64_t vocabulary = 128;
  int64_t layers = 6;
  int64_t width = 256;
  int64_t heads = 8;
  int64_t max_length = 1024;
  double dropout = 0.1;
};

/// Pre-norm attention and MLP, each with dropout and a residual connection. (B, T, C) -> (B, T, C).
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const TinyGptOptions& options);
  at::Tensor forward(at::Tensor x);

 private:
  at::Tensor attend(const at::Tensor& x);

  int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear qkv_, out_, up_, down_;
};
TORCH_MODULE(Block);

class TinyGptImpl : public torch::nn::Module {
 public:
  explicit TinyGptImpl(const TinyGptOptions& options);

  /// Mean cross entropy of predicting ids (B, T + 1) from their past. Each block is a region if
  /// `checkpointing` says how, and a plain call if not.
  at::Tensor loss(const at::Tensor& ids, const std::optional<CheckpointOptions>& checkpointing);

 private:
  torch::nn::Embedding tokens_, positions_;
  std::vector<Block> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(TinyGpt);

}  // namespace reprise::app
