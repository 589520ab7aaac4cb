// Layers that write their own weights or buffers in forward.
#include "law/training_steps.h"

namespace reprise::testing {
namespace {

// max_norm scales rows of the weight in place, in forward.
TEST(LawWritingLayers, AnEmbeddingWithMaxNorm) {
  law([](const Way& way) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(6, 4).max_norm(0.5));
    fill_with_sines(*table);
    auto scale = sine_leaf({4}, 1);
    const auto fn = [table](at::Tensor ids, at::Tensor s) {
      auto module = table;
      return (module(ids) * s).tanh();
    };
    for (int step = 0; step < 2; ++step) {
      way(fn, torch::tensor({1, 5, 1, 0}), scale).sum().backward();
    }
    return joined({scale.grad()}, contents_of(*table));
  });
}

TEST(LawWritingLayers, OneEmbeddingWithMaxNormInTwoRegions) {
  law([](const Way& way) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(6, 4).max_norm(0.5));
    fill_with_sines(*table);
    auto scale = sine_leaf({4}, 1);
    const auto fn = [table](at::Tensor ids, at::Tensor s) {
      auto module = table;
      return (module(ids) * s).tanh();
    };
    const auto a = way(fn, torch::tensor({1, 5}), scale), b = way(fn, torch::tensor({2, 5}), scale);
    (a.sum() + b.exp().sum()).backward();
    return joined({scale.grad()}, contents_of(*table));
  });
}

TEST(LawWritingLayers, AnEmbeddingBagWithMaxNorm) {
  law_or_refused(
      [](const Way& way) {
        torch::nn::EmbeddingBag table(
            torch::nn::EmbeddingBagOptions(6, 4).max_norm(0.5).mode(torch::kSum));
        fill_with_sines(*table);
        const auto fn = [table](at::Tensor ids) {
          auto module = table;
          return module(ids, torch::tensor({0, 2})).tanh();
        };
        way(fn, torch::tensor({1, 5, 1, 0})).sum().backward();
        return contents_of(*table);
      },
      "in place");
}

TEST(LawWritingLayers, WeightNormIsComputedInTheRegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({3, 4}), v = sine_leaf({4, 4}, 1), g = sine_leaf({4, 1}, 2);
        const auto fn = [v, g](at::Tensor h) { return h.mm(at::_weight_norm(v, g)).tanh(); };
        way(fn, way(fn, x)).sum().backward();
        return Tensors{x.grad(), v.grad(), g.grad()};
      },
      {ways()});
}

/// A power iteration per forward, on a buffer.
struct SpectralNormImpl : torch::nn::Module {
  SpectralNormImpl()
      : weight(register_parameter("weight", torch::zeros({4, 4}))),
        u(register_buffer("u", sines({4}, 3))) {}
  at::Tensor forward(at::Tensor h) {
    at::Tensor v;
    {
      const torch::NoGradGuard no_grad;
      v = torch::nn::functional::normalize(weight.t().mv(u),
                                           torch::nn::functional::NormalizeFuncOptions().dim(0));
      u.copy_(torch::nn::functional::normalize(
          weight.mv(v), torch::nn::functional::NormalizeFuncOptions().dim(0)));
    }
    const auto sigma = torch::dot(u.clone(), weight.mv(v));
    return h.mm(weight / sigma).tanh();
  }
  at::Tensor weight, u;
};
TORCH_MODULE(SpectralNorm);

TEST(LawWritingLayers, SpectralNormUpdatesItsBuffer) {
  two_steps(SpectralNorm(), {3, 4});
}

TEST(LawWritingLayers, SpectralNormTwiceInOneRegion) {
  two_steps<SpectralNorm>(
      SpectralNorm(), {3, 4}, [](SpectralNorm& norm, at::Tensor h) { return norm(norm(h)); });
}

/// The nearest rows of a codebook, which move towards what they stand for.
struct CodebookImpl : torch::nn::Module {
  CodebookImpl() : rows(register_buffer("rows", sines({5, 4}, 2))) {
    used = register_buffer("used", torch::zeros({5}));
  }
  at::Tensor forward(at::Tensor h) {
    const auto nearest = torch::cdist(h, rows.clone()).argmin(1);
    const auto codes = rows.index_select(0, nearest);
    {
      const torch::NoGradGuard no_grad;
      used.index_add_(0, nearest, torch::ones({h.size(0)}));
      rows.index_copy_(0, nearest.slice(0, 0, 1), (h[0] * 0.1 + codes[0] * 0.9).unsqueeze(0));
    }
    return h + (codes - h).detach() * h.sin();
  }
  at::Tensor rows, used;
};
TORCH_MODULE(Codebook);

TEST(LawWritingLayers, ACodebookThatMoves) {
  two_steps(Codebook(), {3, 4});
}

/// Observes the range of what passes, as quantization-aware training does.
struct ObserverImpl : torch::nn::Module {
  ObserverImpl() : low(register_buffer("low", torch::zeros({}))) {
    high = register_buffer("high", torch::zeros({}));
  }
  at::Tensor forward(at::Tensor h) {
    low.copy_(torch::min(low, h.detach().min()));
    high.copy_(torch::max(high, h.detach().max()));
    const auto scale = ((high - low) / 255).clamp_min(1e-6);
    return at::fake_quantize_per_tensor_affine(h, scale.item<double>(), 0, -128, 127).tanh();
  }
  at::Tensor low, high;
};
TORCH_MODULE(Observer);

TEST(LawWritingLayers, AnObserverOfRanges) {
  two_steps(Observer(), {3, 4});
}

TEST(LawWritingLayers, ACacheThatGrowsByIndex) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 8}), cache = torch::zeros({4, 8});
        at::Tensor total = torch::zeros({});
        for (int64_t t = 0; t < 4; ++t) {
          const auto fn = [cache, t](at::Tensor h) {
            at::Tensor rows = cache;
            rows.narrow(0, t, 1).copy_(h.detach());
            return (rows.narrow(0, 0, t + 1).clone() * h).softmax(-1).sum(0);
          };
          total = total + way(fn, x.narrow(0, t, 1)).square().sum();
        }
        total.backward();
        return Tensors{x.grad(), cache};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
