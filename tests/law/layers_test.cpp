// torch::nn's layers in regions, and layers that write their own weights or buffers in forward.
#include "law/programs.h"

namespace reprise::testing {
namespace {

/// Two training steps of `module`, called by `run` in a region.
template <class Holder>
void two_steps(Holder made,
               at::IntArrayRef sizes,
               const std::function<at::Tensor(Holder&, at::Tensor)>& run,
               const std::vector<Way>& others = all_ways()) {
  std::vector<at::Tensor> start;
  fill_with_sines(*made);
  for (const auto& buffer : made->buffers()) {
    start.push_back(buffer.clone());
  }
  const auto shape = sizes.vec();
  law(
      [&](const Way& way) {
        fill_with_sines(*made);
        made->zero_grad();
        auto buffers = made->buffers();
        for (size_t i = 0; i < buffers.size(); ++i) {
          buffers[i].copy_(start[i]);
        }
        auto x = sine_leaf(shape);
        const auto block = [made, run](at::Tensor h) {
          auto module = made;
          return run(module, h);
        };
        for (int step = 0; step < 2; ++step) {
          way(block, x * 1).square().sum().backward();
        }
        auto contents = contents_of(*made);
        for (auto& tensor : contents) {
          tensor = tensor.defined() ? tensor.clone() : tensor;
        }
        return joined({x.grad()}, contents);
      },
      others);
}

template <class Holder>
void two_steps(Holder made, at::IntArrayRef sizes, const std::vector<Way>& others = all_ways()) {
  two_steps<Holder>(
      made, sizes, [](Holder& module, at::Tensor h) { return module->forward(h); }, others);
}

TEST(LawLayers, BatchNormWithAMovingAverage) {
  two_steps(torch::nn::BatchNorm1d(4), {8, 4});
  two_steps(torch::nn::BatchNorm2d(4), {2, 4, 3, 3});
}

TEST(LawLayers, BatchNormWithACumulativeAverage) {
  two_steps(torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).momentum(std::nullopt)),
            {8, 4});
}

TEST(LawLayers, BatchNormTwiceInOneRegion) {
  two_steps<torch::nn::BatchNorm1d>(
      torch::nn::BatchNorm1d(4), {8, 4}, [](torch::nn::BatchNorm1d& norm, at::Tensor h) {
        return norm(norm(h).tanh() * 2 + 1);
      });
}

TEST(LawLayers, InstanceNormWithRunningStatistics) {
  two_steps(torch::nn::InstanceNorm2d(
                torch::nn::InstanceNorm2dOptions(4).track_running_stats(true).affine(true)),
            {2, 4, 3, 3});
}

TEST(LawLayers, RecurrentLayers) {
  // The reentrant variant runs forward without grad, where LSTM computes differently.
  two_steps<torch::nn::LSTM>(
      torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).num_layers(2).dropout(0.3)),
      {5, 2, 4},
      [](torch::nn::LSTM& lstm, at::Tensor h) { return std::get<0>(lstm(h)); },
      ways());
  two_steps<torch::nn::GRU>(
      torch::nn::GRU(torch::nn::GRUOptions(4, 4).bidirectional(true)),
      {5, 2, 4},
      [](torch::nn::GRU& gru, at::Tensor h) { return std::get<0>(gru(h)); },
      ways());
}

TEST(LawLayers, RecurrentCellsInALoopOfRegions) {
  law([](const Way& way) {
    torch::nn::LSTMCell cell(4, 4);
    fill_with_sines(*cell);
    auto x = sine_leaf({5, 2, 4});
    auto h = torch::zeros({2, 4}), c = torch::zeros({2, 4});
    for (int64_t t = 0; t < 5; ++t) {
      const auto step = [cell](at::Tensor v, at::Tensor a, at::Tensor b) {
        auto module = cell;
        return module(v, std::tuple(a, b));
      };
      std::tie(h, c) = way(step, x[t], h, c);
    }
    (h.sum() + c.sum()).backward();
    return joined({x.grad()}, contents_of(*cell));
  });
}

TEST(LawLayers, TransformerLayers) {
  two_steps(torch::nn::TransformerEncoderLayer(
                torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.2)),
            {3, 2, 8});
  two_steps<torch::nn::TransformerDecoderLayer>(
      torch::nn::TransformerDecoderLayer(
          torch::nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.2)),
      {3, 2, 8},
      [](torch::nn::TransformerDecoderLayer& layer, at::Tensor h) { return layer(h, h.sin()); });
}

TEST(LawLayers, MultiheadAttentionWithDropout) {
  two_steps<torch::nn::MultiheadAttention>(
      torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(8, 2).dropout(0.3)),
      {3, 2, 8},
      [](torch::nn::MultiheadAttention& attention, at::Tensor h) {
        return std::get<0>(attention(h, h.sin(), h.cos()));
      });
}

TEST(LawLayers, DropoutOfEveryKind) {
  two_steps(torch::nn::Sequential(torch::nn::Conv2d(2, 4, 3),
                                  torch::nn::Dropout2d(0.3),
                                  torch::nn::AlphaDropout(0.2),
                                  torch::nn::FeatureAlphaDropout(0.2),
                                  torch::nn::RReLU(),
                                  torch::nn::Dropout(torch::nn::DropoutOptions(0.2).inplace(true))),
            {2, 2, 6, 6});
}

// max_norm scales rows of the weight in place, in forward.
TEST(LawLayers, AnEmbeddingWithMaxNorm) {
  for (const auto& others : {ways()}) {
    law(
        [](const Way& way) {
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
        },
        others);
  }
}

TEST(LawLayers, OneEmbeddingWithMaxNormInTwoRegions) {
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

TEST(LawLayers, AnEmbeddingBagWithMaxNorm) {
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

TEST(LawLayers, WeightNormIsComputedInTheRegion) {
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

TEST(LawLayers, SpectralNormUpdatesItsBuffer) {
  two_steps(SpectralNorm(), {3, 4});
}

TEST(LawLayers, SpectralNormTwiceInOneRegion) {
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

TEST(LawLayers, ACodebookThatMoves) {
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

TEST(LawLayers, AnObserverOfRanges) {
  two_steps(Observer(), {3, 4});
}

TEST(LawLayers, ACacheThatGrowsByIndex) {
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

TEST(LawLayers, ASequentialByApplyAndBySegments) {
  for (const bool by_apply : {true, false}) {
    law([by_apply](const Way& way) {
      torch::nn::Sequential net(torch::nn::Linear(4, 4),
                                torch::nn::BatchNorm1d(4),
                                torch::nn::Dropout(0.5),
                                torch::nn::Linear(4, 4),
                                torch::nn::Tanh());
      fill_with_sines(*net);
      auto x = sine_leaf({8, 4});
      at::Tensor y;
      if (way.is_plain()) {
        y = net->forward(x);
      } else if (by_apply) {
        auto options = way.options();
        if (options.policy) {
          options.policy = nullptr;  // it matches nothing in some of the layers
        }
        apply_activation_checkpointing(net, options, [](const auto&) { return true; });
        y = net->forward(x);
      } else {
        y = checkpoint_sequential(way.options(), net, 2, x);
      }
      y.square().sum().backward();
      return joined({x.grad()}, contents_of(*net));
    });
  }
}

TEST(LawLayers, RoutingBetweenExperts) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({6, 4}), gate = sine_leaf({4, 3}, 1), experts = sine_leaf({3, 4, 4}, 2);
        auto load = torch::zeros({3});
        const auto fn = [gate, experts, load](at::Tensor h) {
          const auto [weights, chosen] = h.mm(gate).softmax(-1).max(-1);
          at::Tensor counted = load;
          counted.add_(torch::bincount(chosen, {}, 3));
          auto out = torch::zeros_like(h);
          for (int64_t e = 0; e < 3; ++e) {
            const auto rows = (chosen == e).nonzero().squeeze(-1);
            out = out.index_add(0, rows, h.index_select(0, rows).mm(experts[e]).relu());
          }
          return out * weights.unsqueeze(-1);
        };
        way(fn, x).square().sum().backward();
        return Tensors{x.grad(), gate.grad(), experts.grad(), load};
      },
      all_ways());
}

TEST(LawLayers, GumbelNoiseAndStraightThroughGradients) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 5});
        const auto fn = [](at::Tensor h) {
          const auto soft = torch::nn::functional::gumbel_softmax(
              h, torch::nn::functional::GumbelSoftmaxFuncOptions());
          return (h.round() - h).detach() * soft + soft.log();
        };
        way(fn, way(fn, x)).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawLayers, LayersOfManyKinds) {
  two_steps(torch::nn::Sequential(torch::nn::Conv2d(2, 4, 3),
                                  torch::nn::LocalResponseNorm(2),
                                  torch::nn::PReLU(),
                                  torch::nn::MaxPool2d(2),
                                  torch::nn::AdaptiveAvgPool2d(2),
                                  torch::nn::PixelShuffle(2),
                                  torch::nn::Flatten(),
                                  torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                                  torch::nn::GLU(),
                                  torch::nn::Softmax(-1)),
            {2, 2, 8, 8});
}

}  // namespace
}  // namespace reprise::testing
