// torch::nn's layers in regions.
#include "law/training_steps.h"

namespace reprise::testing {
namespace {

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
                                  torch::nn::Dropout(torch::nn::DropoutOptions(0.2).inplace(true))),
            {2, 2, 6, 6});
}

// It writes its noise into an argument, so a policy that wants to keep it is refused.
TEST(LawLayers, RandomizedLeakyRelu) {
  two_steps(torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::RReLU(), torch::nn::Tanh()),
            {3, 4},
            {ways()[0], ways()[1], ways()[3], reentrant()});
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
