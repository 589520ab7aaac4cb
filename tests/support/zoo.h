// A zoo of small models whose parts run as regions, for tests that compare memory policies. A model
// calls `region(name, fn, x)` where a trainer would call reprise::checkpoint; the mode under test
// decides what that does.
#pragma once

#include "support/tensors.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

/// Runs `fn(x)` in the way a memory mode prescribes.
using RegionRunner = std::function<at::Tensor(const Fn& fn, const at::Tensor& x)>;

struct ZooModel : torch::nn::Module {
  virtual at::Tensor loss(const at::Tensor& x, const RegionRunner& region) = 0;
  virtual at::Tensor input() const { return torch::randn({6, 8}); }
};

struct Mlp final : ZooModel {
  Mlp() : first(8, 16), second(16, 8) {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block = [a = first, b = second](at::Tensor h) mutable { return b(torch::gelu(a(h))) + h; };
    return region(block, region(block, x)).square().mean();
  }
  torch::nn::Linear first, second;
};

struct ConvNet final : ZooModel {
  ConvNet()
      : conv1(torch::nn::Conv2dOptions(3, 4, 3).padding(1)),
        conv2(torch::nn::Conv2dOptions(4, 4, 3).padding(1)),
        norm1(4),
        norm2(torch::nn::BatchNorm2dOptions(4).momentum(std::nullopt)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }
  at::Tensor input() const override { return torch::randn({2, 3, 5, 5}); }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block1 = [c = conv1, n = norm1](at::Tensor h) mutable { return torch::relu(n(c(h))); };
    // Without momentum the running average depends on a counter that the region advances.
    Fn block2 = [c = conv2, n = norm2](at::Tensor h) mutable { return torch::relu(n(c(h))); };
    return region(block2, region(block1, x)).square().mean();
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d norm1, norm2;
};

/// In-place operators on what the region computes, and on a view of it.
struct InPlace final : ZooModel {
  InPlace() : linear(8, 8) { register_module("linear", linear); }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block = [l = linear](at::Tensor h) mutable {
      auto y = l(h).relu_();
      y = y.mul(2).add_(h);
      y.narrow(0, 0, 2).mul_(0.5);
      return y.tanh_();
    };
    return region(block, region(block, x)).square().mean();
  }
  torch::nn::Linear linear;
};

struct Lstm final : ZooModel {
  Lstm() : lstm(torch::nn::LSTMOptions(8, 8).num_layers(2)) { register_module("lstm", lstm); }
  at::Tensor input() const override { return torch::randn({5, 3, 8}); }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block = [l = lstm](at::Tensor h) mutable { return std::get<0>(l(h)); };
    return region(block, region(block, x)).square().mean();
  }
  torch::nn::LSTM lstm;
};

struct Transformer final : ZooModel {
  Transformer()
      : qkv(8, 24), out(8, 8), up(8, 32), down(32, 8), norm1(normalized()), norm2(normalized()) {
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }
  static torch::nn::LayerNormOptions normalized() { return torch::nn::LayerNormOptions({8}); }
  at::Tensor input() const override { return torch::randn({2, 6, 8}); }
  at::Tensor forward(at::Tensor x) {
    const auto parts =
        qkv(norm1(x)).view({x.size(0), x.size(1), 3, 2, 4}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto attended =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    attended = attended.transpose(1, 2).reshape(x.sizes());
    x = x + torch::dropout(out(attended), 0.2, is_training());
    return x + torch::dropout(down(torch::silu(up(norm2(x)))), 0.2, is_training());
  }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    auto self = std::static_pointer_cast<Transformer>(shared_from_this());
    Fn block = [self](at::Tensor h) { return self->forward(std::move(h)); };
    return region(block, region(block, x)).square().mean();
  }
  torch::nn::Linear qkv, out, up, down;
  torch::nn::LayerNorm norm1, norm2;
};

/// Gradient hooks on tensors inside and outside of regions.
struct Hooked final : ZooModel {
  Hooked() : linear(8, 8) { register_module("linear", linear); }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block = [l = linear](at::Tensor h) mutable {
      auto y = l(h).tanh();
      if (y.requires_grad()) {  // not in a reentrant forward
        y.register_hook([](const at::Tensor& grad) { return grad * 3; });
      }
      return y.exp();
    };
    auto y = region(block, x);
    y.register_hook([](const at::Tensor& grad) { return grad.clamp(-0.1, 0.1); });
    return region(block, y).square().mean();
  }
  torch::nn::Linear linear;
};

/// One weight used in several regions, twice in one, and outside.
struct SharedWeights final : ZooModel {
  SharedWeights() : weight(register_parameter("weight", torch::randn({8, 8}) * 0.3)) {}
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    Fn block = [self = std::static_pointer_cast<SharedWeights>(shared_from_this())](at::Tensor h) {
      return torch::mm(torch::mm(h, self->weight).sigmoid(), self->weight.t());
    };
    const auto y = region(block, torch::mm(x, weight));
    return torch::mm(region(block, y), weight).square().mean();
  }
  at::Tensor weight;
};

/// bfloat16 under autocast, with the cast of a shared weight already cached when a region begins.
struct Autocast final : ZooModel {
  Autocast()
      : weight(register_parameter("weight", torch::randn({8, 8}) * 0.3)),
        norm(torch::nn::LayerNormOptions({8})) {
    register_module("norm", norm);
  }
  at::Tensor loss(const at::Tensor& x, const RegionRunner& region) override {
    const AutocastScope autocast(x.device().type());
    Fn block = [self = std::static_pointer_cast<Autocast>(shared_from_this())](at::Tensor h) {
      auto y = torch::mm(torch::mm(self->norm(h), self->weight).sigmoid(), self->weight);
      return torch::mm(y, self->weight.t());
    };
    const auto first = torch::mm(x, weight);
    return region(block, region(block, first)).to(at::kFloat).square().mean();
  }
  at::Tensor weight;
  torch::nn::LayerNorm norm;
};

struct ZooEntry {
  std::string name;
  std::function<std::shared_ptr<ZooModel>()> make;
  bool has_matmul = true;  ///< every region runs an operator of this class
  bool has_attention = false;
  bool float_only = false;
  bool differs_without_grad = false;  ///< its kernel computes other bits in no-grad mode
  bool shares_weights =
      false;  ///< between regions: a reentrant backward sums their gradients in another order
};

inline std::vector<ZooEntry> zoo() {
  return {
      {.name = "Mlp", .make = [] { return std::make_shared<Mlp>(); }},
      {.name = "ConvNet", .make = [] { return std::make_shared<ConvNet>(); }, .has_matmul = false},
      {.name = "InPlace", .make = [] { return std::make_shared<InPlace>(); }},
      {.name = "Lstm",
       .make = [] { return std::make_shared<Lstm>(); },
       .has_matmul = false,  // one fused operator in float32
       .differs_without_grad = true},
      {.name = "Transformer",
       .make = [] { return std::make_shared<Transformer>(); },
       .has_attention = true},
      {.name = "Hooked", .make = [] { return std::make_shared<Hooked>(); }},
      {.name = "SharedWeights",
       .make = [] { return std::make_shared<SharedWeights>(); },
       .shares_weights = true},
      {.name = "Autocast",
       .make = [] { return std::make_shared<Autocast>(); },
       .float_only = true,
       .shares_weights = true},
  };
}

/// One way to run a region.
struct MemoryMode {
  std::string name;
  RegionRunner run;
  bool is_reentrant = false;
  bool needs_matmul = false;
  bool needs_attention = false;
};

inline RegionRunner with(CheckpointOptions options) {
  return [options = std::move(options)](const Fn& fn, const at::Tensor& x) {
    return checkpoint(options, fn, x);
  };
}

/// A region inside a region inside a region, each with its own options.
inline RegionRunner nested(CheckpointOptions outer, CheckpointOptions inner) {
  return [outer, inner](const Fn& fn, const at::Tensor& x) {
    const Fn middle = [fn, inner](at::Tensor h) { return checkpoint(inner, fn, std::move(h)); };
    const Fn outermost = [middle](at::Tensor h) { return checkpoint(middle, std::move(h)); };
    return checkpoint(outer, outermost, x);
  };
}

/// Keeps whatever may be kept.
inline std::shared_ptr<const Policy> keep_everything() {
  return policy::from(
      [](const OpContext& op) {
        const bool writes =
            op.name.back() == '_' || op.overload.find("out") != std::string_view::npos;
        return writes || op.name == "aten::rrelu_with_noise" ? Decision::Recompute : Decision::Keep;
      },
      "keep_everything");
}

/// The same by a name.
inline RegionRunner all_named() {
  return [](const Fn& fn, const at::Tensor& x) {
    const Fn named = [fn](at::Tensor h) {
      const NamedRange range("all");
      return fn(std::move(h));
    };
    return checkpoint({.policy = policy::save_named({"all"})}, named, x);
  };
}

inline std::vector<MemoryMode> memory_modes() {
  const CheckpointOptions keep_all{.policy = keep_everything()};
  return {
      {.name = "None", .run = [](const Fn& fn, const at::Tensor& x) { return fn(x); }},
      {.name = "Full", .run = with({})},
      {.name = "FullWithoutEarlyStop", .run = with({.early_stop = false})},
      {.name = "FullCheckingValues", .run = with({.determinism_check = DeterminismCheck::Values})},
      {.name = "FullPolicy", .run = with({.policy = policy::full()})},
      {.name = "Matmuls", .run = with({.policy = policy::save_matmuls()}), .needs_matmul = true},
      {.name = "EverySecondMatmul",
       .run = with({.policy = policy::save_matmuls(2)}),
       .needs_matmul = true},
      {.name = "Attention",
       .run = with({.policy = policy::save_attention()}),
       .needs_attention = true},
      {.name = "KeepEverything", .run = with(keep_all)},
      {.name = "NamedRange", .run = all_named()},
      {.name = "Reentrant", .run = with({.use_reentrant = true}), .is_reentrant = true},
      {.name = "Nested", .run = nested({}, {})},
      {.name = "NestedPolicies", .run = nested({.policy = policy::full()}, keep_all)},
  };
}

}  // namespace reprise::testing
