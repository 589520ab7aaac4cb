// Exceptions in forward, in recomputes and in backward: what the failed step changed is what plain
// training would have changed, and the next step is right.
#include "law/programs.h"

#include <stdexcept>

namespace reprise::testing {
namespace {

/// A block that draws, writes a buffer, and throws before stage `failing` of its run `run`.
struct FailingBlock {
  int failing = -1;
  int run = 1;
  at::Tensor w = sine_leaf({8}, 1), counter = torch::zeros({8});
  std::shared_ptr<int> runs = std::make_shared<int>(0);

  at::Tensor operator()(at::Tensor h) const {
    ++*runs;
    for (int stage = 0; stage < 5; ++stage) {
      if (*runs == run && stage == failing) {
        throw std::runtime_error("stage failed");
      }
      h = torch::dropout((h * w).tanh(), 0.5, true) + counter.clone();
      at::Tensor written = counter;
      written.add_(1);
    }
    return h;
  }
};

at::Tensor healthy_block(const at::Tensor& w, at::Tensor h) {
  return torch::dropout((h * w).sin(), 0.5, true).exp();
}

TEST(LawFailures, ForwardFailsAtAnyStageAndTheNextStepIsRight) {
  for (int stage = 0; stage < 5; ++stage) {
    law(
        [stage](const Way& way) {
          const FailingBlock block{.failing = stage};
          auto x = sine_leaf({8});
          EXPECT_THROW(way(block, x), std::runtime_error);
          way(block, x).sum().backward();
          return Tensors{x.grad(), block.w.grad(), block.counter};
        },
        all_ways());
  }
}

TEST(LawFailures, ARecomputeFailsAtAnyStageAndTheNextStepIsRight) {
  for (int stage = 0; stage < 4; ++stage) {
    law(
        [stage](const Way& way) {
          const FailingBlock block{.failing = stage, .run = 2};
          auto x = sine_leaf({8});
          const auto loss = way(block, x).sum();
          if (way.is_plain()) {
            loss.backward();
            ++*block.runs;
          } else {
            EXPECT_THROW(loss.backward(), CheckpointError);
          }
          x.mutable_grad().reset();
          block.w.mutable_grad().reset();
          way(block, x).sum().backward();
          return Tensors{x.grad(), block.w.grad(), block.counter};
        },
        all_ways());
  }
}

TEST(LawFailures, AFailedBackwardIsTriedAgain) {
  law([](const Way& way) {
    const FailingBlock block{.failing = 2, .run = 2};
    auto x = sine_leaf({8});
    const auto loss = way(block, x).sum();
    if (!way.is_plain()) {
      EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), CheckpointError);
    }
    loss.backward();
    return Tensors{x.grad(), block.w.grad(), block.counter};
  });
}

TEST(LawFailures, AnInnerRecomputeFailsAndIsTriedAgain) {
  law([](const Way& way) {
    const FailingBlock block{.failing = 2, .run = 3};
    auto x = sine_leaf({8});
    const auto outer = [way, block](at::Tensor h) { return way(block, h.sin()).cos(); };
    const auto loss = way(outer, x).sum();
    if (!way.is_plain()) {
      EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), CheckpointError);
    }
    loss.backward();
    return Tensors{x.grad(), block.w.grad(), block.counter};
  });
}

TEST(LawFailures, OneOfSeveralRegionsFails) {
  law([](const Way& way) {
    auto x = sine_leaf({8}), w = sine_leaf({8}, 1);
    const FailingBlock block{.failing = 3};
    const auto good = [w](at::Tensor h) { return healthy_block(w, h); };
    at::Tensor h = way(good, x);
    try {
      h = way(block, h);
    } catch (const std::runtime_error&) {
    }
    way(good, h).sum().backward();
    return Tensors{x.grad(), w.grad(), block.w.grad(), block.counter};
  });
}

TEST(LawFailures, AnObjectThatIsNoExceptionIsThrown) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        auto runs = std::make_shared<int>(0);
        const auto fn = [runs](at::Tensor h) {
          h = h.tanh();
          if (++*runs <= 2) {
            throw *runs;  // NOLINT: whatever users throw
          }
          return h.exp();
        };
        EXPECT_THROW(way(fn, x), int);
        EXPECT_THROW(way(fn, x), int);
        way(fn, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawFailures, AnErrorOfLibTorchIsHandledInsideTheRegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        const auto fn = [](at::Tensor h) {
          h = torch::dropout(h.tanh(), 0.5, true);
          try {
            h = h.exp().mm(h);  // not a matrix
          } catch (const c10::Error&) {
            h = h.sin();
          }
          return h.exp();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawFailures, AnErrorInsideAnInPlaceOperatorIsHandledInsideTheRegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8}), buffer = sines({8}, 1);
        auto fn = [buffer](at::Tensor h) mutable {
          try {
            buffer.add_(torch::ones({3}));  // of another shape
          } catch (const c10::Error&) {
            buffer.mul_(2);
          }
          return (h * buffer.clone()).tanh();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad(), buffer};
      },
      all_ways());
}

// It cannot work with early stop, but it must not go unnoticed.
TEST(LawFailures, EveryExceptionIsSwallowedInsideTheRegion) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({8});
        const auto fn = [](at::Tensor h) {
          h = h.sin();
          try {
            h = h.tanh();
            h = h.exp() + 1;
          } catch (...) {  // NOLINT(bugprone-empty-catch)
          }
          return h + 2;
        };
        const auto y = way(fn, x);
        y.sum().backward();
        return Tensors{y.detach(), x.grad()};
      },
      "catch (...)",
      all_ways());
}

TEST(LawFailures, AHookThrowsWhileTheRegionIsRecomputed) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8}), w = sine_leaf({8}, 1);
        const auto fn = [w](at::Tensor h) { return healthy_block(w, h.tanh()); };
        auto h = way(fn, x);
        h.register_hook([](const at::Tensor&) { TORCH_CHECK(false, "a hook failed"); });
        EXPECT_THROW(way(fn, h).sum().backward(), c10::Error);
        x.mutable_grad().reset();
        w.mutable_grad().reset();
        way(fn, x).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      all_ways());
}

TEST(LawFailures, APolicyThrows) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8}), w = sine_leaf({8}, 1);
        const auto fn = [w](at::Tensor h) { return healthy_block(w, h.tanh()); };
        const auto state = at::detail::getDefaultCPUGenerator().get_state();
        if (!way.is_plain()) {
          const auto throws = policy::from([](const OpContext& op) {
            if (op.name == "aten::sin") {
              throw std::runtime_error("the policy failed");
            }
            return Decision::Keep;
          });
          const auto set = [&](CheckpointOptions& options) { options.policy = throws; };
          EXPECT_THROW(way.with(set, fn, x), std::runtime_error);
          auto generator = at::detail::getDefaultCPUGenerator();
          generator.set_state(state);
        }
        way(fn, x).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      {ways()[0], ways()[1]});
}

/// A callable that cannot be copied the n-th time.
struct FailingCopy {
  explicit FailingCopy(int copies) : left(std::make_shared<int>(copies)) {}
  FailingCopy(const FailingCopy& other) : left(other.left) {
    if (--*left == 0) {
      throw std::runtime_error("a copy failed");
    }
  }
  FailingCopy& operator=(const FailingCopy&) = delete;
  at::Tensor operator()(at::Tensor h) const { return h.tanh().exp(); }
  std::shared_ptr<int> left;
};

TEST(LawFailures, TheCallableCannotBeCopied) {
  for (const auto& way : all_ways()) {
    for (int copies = 1; copies < 4; ++copies) {
      auto x = sine_leaf({8});
      const FailingCopy fn(copies);
      try {
        way(fn, x).sum().backward();
      } catch (const std::runtime_error&) {
      } catch (const c10::Error&) {
      }
      x.mutable_grad().reset();
      const FailingCopy good(1000);
      way(good, x).sum().backward();
      EXPECT_TRUE(bitwise_equal(x.grad(), [] {
        auto plain = sine_leaf({8});
        plain.tanh().exp().sum().backward();
        return plain.grad();
      }()));
    }
  }
}

TEST(LawFailures, TensorsThatEscapeAFailedRegionAreRefused) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    auto x = sine_leaf({8});
    auto escaped = std::make_shared<at::Tensor>();
    const auto fn = [escaped](at::Tensor h) {
      *escaped = h.tanh().exp();
      throw std::runtime_error("after it escaped");
      return h;
    };
    EXPECT_THROW(way(fn, x), std::runtime_error);
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { escaped->sum().backward(); }), "attacked"));
  }
}

TEST(LawFailures, ABackwardOverAFreedGraphIsRefusedAsPlainly) {
  refused_as_plainly([](const Way& way) {
    auto x = sine_leaf({8});
    const auto loss = way([](at::Tensor h) { return h.tanh().exp(); }, x).sum();
    loss.backward();
    loss.backward();
    return Tensors{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
