// Modes of LibTorch that change how operators run: forward-mode differentiation, anomaly detection,
// inference mode, guards on dispatch keys.
#include "law/programs.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>

namespace reprise::testing {
namespace {

/// A level of forward-mode differentiation.
class DualLevel {
 public:
  DualLevel() : index_(torch::autograd::ForwardADLevel::get_next_idx()) {}
  ~DualLevel() { torch::autograd::ForwardADLevel::release_idx(index_); }
  DualLevel(const DualLevel&) = delete;
  DualLevel& operator=(const DualLevel&) = delete;

  at::Tensor dual(const at::Tensor& primal, const at::Tensor& tangent) const {
    return at::_make_dual(primal, tangent, static_cast<int64_t>(index_));
  }
  at::Tensor tangent(const at::Tensor& dual) const {
    return std::get<1>(at::_unpack_dual(dual, static_cast<int64_t>(index_)));
  }

 private:
  uint64_t index_;
};

TEST(LawModes, ForwardModeThroughARegion) {
  law_or_refused(
      [](const Way& way) {
        const DualLevel level;
        auto x = sine_leaf({4});
        const auto input = level.dual(x, sines({4}, 1));
        const auto y = way([](at::Tensor h) { return h.tanh().exp(); }, input);
        return Tensors{y.detach(), level.tangent(y).detach()};
      },
      "forward-mode");
}

TEST(LawModes, ForwardOverReverse) {
  law_or_refused(
      [](const Way& way) {
        const DualLevel level;
        auto x = sine_leaf({4});
        const auto input = level.dual(x, sines({4}, 1));
        const auto y = way([](at::Tensor h) { return h.tanh().exp(); }, input);
        level.tangent(y).sum().backward();
        return Tensors{x.grad()};
      },
      "[reprise]");
}

TEST(LawModes, BackwardOfAPrimalWhileALevelIsOpen) {
  law_or_refused(
      [](const Way& way) {
        const DualLevel level;
        auto x = sine_leaf({4}), w = sine_leaf({4}, 2);
        const auto weight = level.dual(w, sines({4}, 1));
        const auto y = way([weight](at::Tensor h) { return (h * weight).tanh().exp(); }, x);
        y.sum().backward();
        return Tensors{x.grad(), w.grad(), level.tangent(y).detach()};
      },
      "[reprise]");
}

TEST(LawModes, ForwardModeInsideARegion) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          const DualLevel level;
          return level.tangent(level.dual(h.sin(), sines({4}, 1)).tanh()).exp();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad()};
      },
      "[reprise]");
}

TEST(LawModes, AnomalyDetection) {
  law(
      [](const Way& way) {
        const torch::autograd::DetectAnomalyGuard anomaly;
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        const auto fn = [w](at::Tensor h) { return torch::dropout((h * w).tanh(), 0.5, true); };
        way(fn, way(fn, x)).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      all_ways());
}

TEST(LawModes, AnomalyDetectionInBackwardOnly) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    const auto loss = way([](at::Tensor h) { return h.tanh().exp(); }, x).sum();
    const torch::autograd::DetectAnomalyGuard anomaly;
    loss.backward();
    return Tensors{x.grad()};
  });
}

TEST(LawModes, AnomalousGradientsAreReportedAsPlainly) {
  refused_as_plainly([](const Way& way) {
    const torch::autograd::DetectAnomalyGuard anomaly;
    auto x = torch::zeros({4}).set_requires_grad(true);
    way([](at::Tensor h) { return (h.sqrt() * 0).tanh(); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawModes, InferenceModeInsideARegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          at::Tensor noise;
          {
            const c10::InferenceMode inference;
            noise = torch::randn({4}) * h.detach();
          }
          return (h + noise).tanh();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawModes, ARegionInInferenceModeIsPlain) {
  law([](const Way& way) {
    const c10::InferenceMode inference;
    const auto y =
        way([](at::Tensor h) { return torch::dropout(h.tanh(), 0.5, true); }, sines({4}));
    EXPECT_TRUE(y.is_inference());
    return Tensors{y};
  });
}

TEST(LawModes, GradModeIsTurnedOnInsideNoGrad) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        const auto fn = [w](at::Tensor h) {
          const torch::NoGradGuard no_grad;
          h = torch::dropout(h.tanh(), 0.5, true);
          const torch::AutoGradMode enabled(true);
          return (h * w).tanh().exp();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      ways());
}

TEST(LawModes, GradModeIsTurnedOnInsideAPlainCall) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    at::Tensor y;
    {
      const torch::NoGradGuard no_grad;
      y = way(
          [way](at::Tensor h) {
            const torch::AutoGradMode enabled(true);
            return way([](at::Tensor v) { return v.tanh().exp(); }, h.sin());
          },
          x);
    }
    y.sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawModes, BelowAutogradInsideARegion) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    const auto fn = [](at::Tensor h) {
      at::Tensor twice;
      {
        const at::AutoDispatchBelowAutograd below;
        twice = torch::dropout(h * 2, 0.5, true);
      }
      return (h + twice.detach()).tanh().exp();
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawModes, AutocastKeysAreExcludedByHand) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8, 8});
        const AutocastScope autocast(at::kCPU);
        at::Tensor y;
        {
          const c10::impl::ExcludeDispatchKeyGuard without(c10::DispatchKey::AutocastCPU);
          y = way([](at::Tensor h) { return h.mm(h.t()).tanh(); }, x);
        }
        y.sum().backward();
        return Tensors{y.detach(), x.grad()};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
