// Training that is right: captured tensors change, but never between a region's forward and its
// backward in a way that it could read. Nothing may alarm, and all bits are those of plain
// training.
#include "law/programs.h"

#include <torch/csrc/autograd/function_hook.h>

namespace reprise::testing {
namespace {

/// Two linear layers, each a region.
struct TwoLayers {
  TwoLayers() {
    fill_with_sines(*first);
    fill_with_sines(*second);
  }
  at::Tensor forward(const Way& way, at::Tensor h) {
    h = way([layer = first](at::Tensor v) mutable { return layer(v).tanh(); }, h);
    return way([layer = second](at::Tensor v) mutable { return layer(v).tanh(); }, h);
  }
  Tensors parameters() const { return joined(first->parameters(), second->parameters()); }
  Tensors contents() const { return joined(contents_of(*first), contents_of(*second)); }

  torch::nn::Linear first{4, 4}, second{4, 4};
};

TEST(LawUnchangedCaptures, OptimizerStepsAfterBackward) {
  for (const bool is_adam : {false, true}) {
    law(
        [is_adam](const Way& way) {
          TwoLayers layers;
          torch::optim::SGD sgd(layers.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
          torch::optim::AdamW adam(layers.parameters(), 0.1);
          auto x = sine_leaf({3, 4});
          for (int step = 0; step < 4; ++step) {
            layers.forward(way, x).sum().backward();
            is_adam ? adam.step() : sgd.step();
            sgd.zero_grad();
          }
          return layers.contents();
        },
        all_ways());
  }
}

TEST(LawUnchangedCaptures, GradientsAccumulateOverMicroBatches) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        torch::optim::SGD sgd(layers.parameters(), 0.1);
        for (int step = 0; step < 2; ++step) {
          for (int batch = 0; batch < 3; ++batch) {
            layers.forward(way, sine_leaf({3, 4}, batch)).sum().backward();
          }
          sgd.step();
        }
        return layers.contents();
      },
      all_ways());
}

TEST(LawUnchangedCaptures, TwoForwardsThenTwoBackwards) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        const auto a = layers.forward(way, sine_leaf({3, 4}, 1)).sum();
        const auto b = layers.forward(way, sine_leaf({3, 4}, 2)).sum();
        b.backward();
        a.backward();
        return layers.contents();
      },
      all_ways());
}

TEST(LawUnchangedCaptures, GradientsAreZeroedBetweenForwardAndBackward) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        torch::optim::SGD sgd(layers.parameters(), 0.1);
        layers.forward(way, sine_leaf({3, 4}, 1)).sum().backward();
        const auto loss = layers.forward(way, sine_leaf({3, 4}, 2)).sum();
        sgd.zero_grad(/*set_to_none=*/false);
        loss.backward();
        return layers.contents();
      },
      all_ways());
}

/// Steps as soon as the gradient is there, and drops it.
struct StepInBackward : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor& parameter) override {
    const torch::NoGradGuard no_grad;
    at::Tensor changed = parameter;
    changed.add_(changed.grad(), -0.1);
    changed.mutable_grad().reset();
  }
};

void step_in_backward(const Tensors& parameters) {
  for (const auto& parameter : parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<StepInBackward>());
  }
}

TEST(LawUnchangedCaptures, TheOptimizerStepsInBackward) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        step_in_backward(layers.parameters());
        for (int step = 0; step < 3; ++step) {
          layers.forward(way, sine_leaf({3, 4}, step)).sum().backward();
        }
        return layers.contents();
      },
      all_ways());
}

TEST(LawUnchangedCaptures, TheOptimizerStepsInBackwardWithinOneRegion) {
  law([](const Way& way) {
    TwoLayers layers;
    step_in_backward(layers.parameters());
    auto both = [layers](at::Tensor h) mutable {
      return layers.second(layers.first(h).tanh()).tanh();
    };
    for (int step = 0; step < 3; ++step) {
      way(both, sine_leaf({3, 4}, step)).sum().backward();
    }
    return layers.contents();
  });
}

TEST(LawUnchangedCaptures, TheOptimizerStepsInBackwardOfNestedRegions) {
  law([](const Way& way) {
    TwoLayers layers;
    step_in_backward(layers.parameters());
    auto both = [layers, way](at::Tensor h) mutable { return layers.forward(way, h.sin()); };
    for (int step = 0; step < 3; ++step) {
      way(both, sine_leaf({3, 4}, step)).sum().backward();
    }
    return layers.contents();
  });
}

TEST(LawUnchangedCaptures, TiedWeightsOfTwoRegions) {
  law([](const Way& way) {
    auto table = sine_leaf({5, 4});
    const auto ids = torch::tensor({1, 4, 2});
    for (int step = 0; step < 3; ++step) {
      const auto h = way([table](at::Tensor i) { return torch::embedding(table, i).tanh(); }, ids);
      way([table](at::Tensor v) { return v.mm(table.t()).log_softmax(-1); }, h).sum().backward();
      const torch::NoGradGuard no_grad;
      table.sub_(table.grad(), 0.1);
    }
    return Tensors{table.detach(), table.grad()};
  });
}

TEST(LawUnchangedCaptures, TiedWeightsSteppedInBackward) {
  law([](const Way& way) {
    auto w = sine_leaf({4, 4});
    step_in_backward({w});
    const auto block = [w](at::Tensor h) { return h.mm(w).tanh(); };
    for (int step = 0; step < 3; ++step) {
      way(block, way(block, sine_leaf({3, 4}, step))).sum().backward();
    }
    return Tensors{w.detach()};
  });
}

TEST(LawUnchangedCaptures, OneBatchNormInTwoRegions) {
  law(
      [](const Way& way) {
        torch::nn::BatchNorm1d norm(4);
        auto block = [norm](at::Tensor h) mutable { return norm(h).tanh(); };
        auto x = sine_leaf({8, 4});
        for (int step = 0; step < 2; ++step) {
          way(block, way(block, x) * 2).square().sum().backward();
        }
        return joined({x.grad()}, {norm->running_mean, norm->running_var});
      },
      all_ways());
}

TEST(LawUnchangedCaptures, OneBatchNormInTwoForwardsThenTwoBackwards) {
  law([](const Way& way) {
    torch::nn::BatchNorm1d norm(4);
    auto block = [norm](at::Tensor h) mutable { return norm(h).tanh(); };
    auto x = sine_leaf({8, 4});
    const auto a = way(block, x).square().sum();
    const auto b = way(block, x * 2).square().sum();
    a.backward();
    b.backward();
    return joined({x.grad()}, contents_of(*norm));
  });
}

TEST(LawUnchangedCaptures, AMovingAverageIsUpdatedAfterForward) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        auto average = layers.first->weight.detach().clone();
        for (int step = 0; step < 3; ++step) {
          const auto loss = layers.forward(way, sine_leaf({3, 4}, step)).sum();
          average.lerp_(layers.first->weight.detach(), 0.1);
          loss.backward();
          const torch::NoGradGuard no_grad;
          layers.first->weight.sub_(layers.first->weight.grad(), 0.1);
        }
        return joined({average}, layers.contents());
      },
      all_ways());
}

TEST(LawUnchangedCaptures, ACounterThatTheRegionOnlyWritesChangesAfterwards) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), counter = torch::zeros({4});
        const auto y = way(
            [counter](at::Tensor h) mutable {
              counter.fill_(7);
              return h.tanh().exp();
            },
            x);
        counter.add_(1);
        y.sum().backward();
        return Tensors{x.grad(), counter};
      },
      all_ways());
}

TEST(LawUnchangedCaptures, ACounterThatTheRegionAddsToChangesAfterwards) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), counter = torch::zeros({4});
        const auto y = way(
            [counter](at::Tensor h) mutable {
              counter.add_(1);
              return (h * counter.clone()).tanh();
            },
            x);
        counter.add_(10);
        y.sum().backward();
        return Tensors{x.grad(), counter};
      },
      all_ways());
}

TEST(LawUnchangedCaptures, ALogOfMaximaIsWrittenByEveryRegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), maxima = torch::zeros({3});
        at::Tensor h = x;
        for (int64_t i = 0; i < 3; ++i) {
          h = way(
              [maxima, i](at::Tensor v) mutable {
                v = v.tanh() * 1.5;
                maxima[i].copy_(v.detach().max());
                return v;
              },
              h);
        }
        maxima.mul_(2);
        h.sum().backward();
        return Tensors{x.grad(), maxima};
      },
      all_ways());
}

TEST(LawUnchangedCaptures, AStaleParameterThatNoRegionReadsChanges) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), unused = sine_leaf({4}, 1), w = sine_leaf({4}, 2);
        // Captured, but only its shape is used.
        const auto y =
            way([unused, w](at::Tensor h) { return (h.reshape(unused.sizes()) * w).tanh(); }, x);
        {
          const torch::NoGradGuard no_grad;
          unused.add_(1);
        }
        y.sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      all_ways());
}

TEST(LawUnchangedCaptures, WeightsAreSwappedForAnEvaluationAndSwappedBack) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        auto x = sine_leaf({3, 4});
        const auto loss = layers.forward(way, x).sum();
        Tensors own;
        for (auto& parameter : layers.parameters()) {
          own.push_back(parameter.data());
          parameter.set_data(parameter.detach() * 0.5);
        }
        at::Tensor evaluated;
        {
          const torch::NoGradGuard no_grad;
          evaluated = layers.forward(way, x);
        }
        auto parameters = layers.parameters();
        for (size_t i = 0; i < own.size(); ++i) {
          parameters[i].set_data(own[i]);
        }
        loss.backward();
        return joined({x.grad(), evaluated}, layers.contents());
      },
      all_ways());
}

// An early stop comes before the parameter is released again.
TEST(LawUnchangedCaptures, AParameterIsFrozenInTheMiddle) {
  law([](const Way& way) {
    auto x = sine_leaf({3, 4}), w = sine_leaf({4, 4}, 1);
    const auto fn = [w](at::Tensor h) {
      h = h.mm(w).tanh();
      w.set_requires_grad(false);
      h = h.mm(w).sin() + 1;
      w.set_requires_grad(true);
      return h;
    };
    way(fn, x).sum().backward();
    EXPECT_TRUE(w.requires_grad());
    return Tensors{x.grad(), w.grad()};
  });
}

TEST(LawUnchangedCaptures, AnAdversaryTrainsInTurns) {
  law([](const Way& way) {
    auto g = sine_leaf({4, 4}), d = sine_leaf({4, 4}, 1);
    const auto generate = [g](at::Tensor z) { return z.mm(g).tanh(); };
    const auto judge = [d](at::Tensor v) { return v.mm(d).sigmoid(); };
    for (int step = 0; step < 3; ++step) {
      const auto fake = way(generate, sines({3, 4}, step));
      way(judge, fake.detach()).sum().backward();
      {
        const torch::NoGradGuard no_grad;
        d.sub_(d.grad(), 0.1);
        d.grad().zero_();
      }
      way(judge, fake).mean().backward();  // fake's region runs again, after d's step
      const torch::NoGradGuard no_grad;
      g.sub_(g.grad(), 0.1);
      g.grad().zero_();
    }
    return Tensors{g.detach(), d.detach(), d.grad()};
  });
}

TEST(LawUnchangedCaptures, GradientsAreClippedAndScaled) {
  law(
      [](const Way& way) {
        TwoLayers layers;
        torch::optim::SGD sgd(layers.parameters(), 0.1);
        for (int step = 0; step < 3; ++step) {
          (layers.forward(way, sine_leaf({3, 4}, step)).sum() * 1024).backward();
          for (auto& parameter : layers.parameters()) {
            parameter.mutable_grad().div_(1024);
          }
          torch::nn::utils::clip_grad_norm_(layers.parameters(), 0.5);
          sgd.step();
          sgd.zero_grad();
        }
        return layers.contents();
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
