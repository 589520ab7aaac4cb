#include "reprise/tiny_gpt.h"

#include <reprise/checkpoint.h>

#include <string>
#include <utility>

namespace reprise::app {
namespace {

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

BlockImpl::BlockImpl(const TinyGptOptions& options)
    : heads_(options.heads),
      dropout_(options.dropout),
      norm1_(register_module("norm1", layer_norm(options.width))),
      norm2_(register_module("norm2", layer_norm(options.width))),
      qkv_(register_module("qkv", torch::nn::Linear(options.width, 3 * options.width))),
      out_(register_module("out", torch::nn::Linear(options.width, options.width))),
      up_(register_module("up", torch::nn::Linear(options.width, 4 * options.width))),
      down_(register_module("down", torch::nn::Linear(4 * options.width, options.width))) {}

at::Tensor BlockImpl::attend(const at::Tensor& x) {
  const auto batch = x.size(0);
  const auto length = x.size(1);
  const auto qkv = qkv_(x)
                       .view({batch, length, 3, heads_, x.size(2) / heads_})
                       .permute({2, 0, 3, 1, 4})
                       .unbind(0);
  const auto attended = at::scaled_dot_product_attention(
      qkv[0], qkv[1], qkv[2], /*attn_mask=*/{}, 0.0, /*is_causal=*/true);
  return out_(attended.transpose(1, 2).reshape(x.sizes()));
}

at::Tensor BlockImpl::forward(at::Tensor x) {
  x = x + torch::dropout(attend(norm1_(x)), dropout_, is_training());
  return x + torch::dropout(down_(torch::gelu(up_(norm2_(x)))), dropout_, is_training());
}

TinyGptImpl::TinyGptImpl(const TinyGptOptions& options)
    : tokens_(register_module("tokens", torch::nn::Embedding(options.vocabulary, options.width))),
      positions_(
          register_module("positions", torch::nn::Embedding(options.max_length, options.width))),
      norm_(register_module("norm", layer_norm(options.width))),
      head_(register_module("head", torch::nn::Linear(options.width, options.vocabulary))) {
  for (int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), Block(options)));
  }
}

at::Tensor TinyGptImpl::loss(const at::Tensor& ids,
                             const std::optional<CheckpointOptions>& checkpointing) {
  const auto length = ids.size(1) - 1;
  const auto inputs = ids.narrow(1, 0, length);
  const auto targets = ids.narrow(1, 1, length);
  auto x = tokens_(inputs) + positions_(torch::arange(length, ids.options()));
  for (const auto& block : blocks_) {
    const auto forward = [block](at::Tensor h) { return block.ptr()->forward(std::move(h)); };
    x = checkpointing ? checkpoint(*checkpointing, forward, x) : forward(x);
  }
  return torch::nn::functional::cross_entropy(head_(norm_(x)).flatten(0, 1), targets.reshape({-1}));
}

}  // namespace reprise::app
