// Many regions, deep recursion, wide regions.
#include "law/programs.h"

namespace reprise::testing {
namespace {

at::Tensor small_step(at::Tensor h) {
  return h.sin() * 1.01;
}

TEST(LawManyRegions, TenThousandInAChain) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        at::Tensor h = x;
        for (int i = 0; i < 10'000; ++i) {
          h = way(small_step, h);
        }
        h.sum().backward();
        return Tensors{x.grad()};
      },
      {ways()[0], reentrant()});
}

TEST(LawManyRegions, TenThousandSideBySide) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        at::Tensor total = torch::zeros({4});
        for (int i = 0; i < 10'000; ++i) {
          total = total + way(small_step, x);
        }
        total.sum().backward();
        return Tensors{x.grad()};
      },
      {ways()[0]});
}

TEST(LawManyRegions, AThousandThatDrawAndWrite) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), counter = torch::zeros({});
        const auto fn = [counter](at::Tensor h) {
          at::Tensor written = counter;
          written.add_(1);
          return torch::dropout(h.sin(), 0.01, true) + counter * 1e-4;
        };
        at::Tensor h = x;
        for (int i = 0; i < 1'000; ++i) {
          h = way(fn, h);
        }
        h.sum().backward();
        return Tensors{x.grad(), counter};
      },
      {ways()[0], ways()[2]});
}

at::Tensor nested_steps(const Way& way, int depth, at::Tensor h) {
  if (depth == 0) {
    return small_step(h);
  }
  return way([way, depth](at::Tensor v) { return nested_steps(way, depth - 1, v.cos()); }, h);
}

TEST(LawManyRegions, FiftyInsideEachOther) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        nested_steps(way, 50, x).sum().backward();
        return Tensors{x.grad()};
      },
      {ways()[0], reentrant()});
}

/// Halves its rows, and joins the results.
at::Tensor tree(const Way& way, at::Tensor h) {
  if (h.size(0) == 1) {
    return torch::dropout(h.tanh(), 0.2, true);
  }
  const auto split = [way](at::Tensor v) {
    const auto half = v.size(0) / 2;
    return torch::cat({tree(way, v.narrow(0, 0, half)), tree(way, v.narrow(0, half, half))}).sin();
  };
  return way(split, h);
}

TEST(LawManyRegions, ATreeOfRegions) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({16, 2});
        tree(way, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawManyRegions, TwoThousandOperatorsInOne) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          for (int i = 0; i < 1'000; ++i) {
            h = small_step(h);
          }
          return h;
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawManyRegions, FiveHundredInputsAndOutputs) {
  law([](const Way& way) {
    Tensors leaves;
    for (int i = 0; i < 500; ++i) {
      leaves.push_back(sine_leaf({2}, i));
    }
    const auto fn = [](const std::vector<at::Tensor>& in) {
      std::vector<at::Tensor> out;
      for (size_t i = 0; i < in.size(); ++i) {
        out.push_back(in[i].tanh() * in[(i + 1) % in.size()]);
      }
      return out;
    };
    const auto results = way(fn, leaves);
    torch::stack(results).square().sum().backward();
    Tensors gradients;
    for (const auto& each : leaves) {
      gradients.push_back(each.grad());
    }
    return gradients;
  });
}

TEST(LawManyRegions, TheSameResultIsUsedAThousandTimes) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto y = way([](at::Tensor h) { return h.tanh().exp(); }, x);
        at::Tensor total = torch::zeros({4});
        for (int i = 0; i < 1'000; ++i) {
          total = total + y * (i * 1e-3);
        }
        total.sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawManyRegions, AHundredBackwardsOverOneGraph) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    const auto loss = nested_steps(way, 3, x).sum();
    for (int i = 0; i < 100; ++i) {
      loss.backward({}, /*retain_graph=*/true);
    }
    return Tensors{x.grad()};
  });
}

TEST(LawManyRegions, AGraphOfRegionsThatShareInputs) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    Tensors nodes{x};
    for (size_t i = 1; i < 40; ++i) {
      const auto fn = [](at::Tensor a, at::Tensor b) { return (a * b).tanh() + a; };
      nodes.push_back(way(fn, nodes[i / 2], nodes[i - 1]));
    }
    nodes.back().sum().backward();
    return Tensors{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
