// What a region returns looks like what the plain call returns: flags, strides, versions; gradients
// that are not defined stay so.
#include "law/programs.h"

namespace reprise::testing {
namespace {

/// Flags and numbers of a tensor that a program can see, as a tensor.
at::Tensor appearance(const at::Tensor& tensor) {
  std::vector<int64_t> seen{tensor.requires_grad(),
                            tensor.is_leaf(),
                            tensor.is_view(),
                            tensor._version(),
                            tensor.output_nr(),
                            tensor.storage_offset(),
                            tensor.is_contiguous(),
                            tensor.grad_fn() == nullptr};
  seen.insert(seen.end(), tensor.strides().begin(), tensor.strides().end());
  return torch::tensor(seen);
}

TEST(LawOutputs, LookLikePlainOnes) {
  law([](const Way& way) {
    auto x = sine_leaf({4, 6});
    const auto fn = [](at::Tensor h) {
      auto changed = h * 2;
      changed.add_(1);
      return std::vector{h,
                         h.tanh().t(),
                         h.exp().narrow(1, 2, 3),
                         changed,
                         h.detach(),
                         h.argmax(-1),
                         h.sum(),
                         torch::ones({2})};
    };
    const auto results = way(fn, x.sin());
    Tensors seen;
    at::Tensor loss = torch::zeros({});
    for (const auto& result : results) {
      seen.push_back(appearance(result));
      loss = loss + result.sum();
    }
    loss.backward();
    seen.push_back(appearance(x.grad()));
    return joined(seen, {x.grad()});
  });
}

TEST(LawOutputs, ALeafAsInputLooksTheSameAfterwards) {
  law([](const Way& way) {
    auto x = sine_leaf({4}), buffer = torch::zeros({4});
    const auto fn = [buffer](at::Tensor h) {
      at::Tensor written = buffer;
      written.add_(1);
      return h.tanh().exp();
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad(), appearance(x), appearance(buffer), appearance(x.grad())};
  });
}

TEST(LawOutputs, AnInputWithoutUseHasNoGradient) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), unused = sine_leaf({4}, 1);
        way([](at::Tensor h, at::Tensor) { return h.tanh(); }, x, unused).sum().backward();
        return Tensors{x.grad(), unused.grad()};
      },
      all_ways());
}

TEST(LawOutputs, ACapturedWeightWithoutUseHasNoGradient) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), unused = sine_leaf({4}, 1), w = sine_leaf({4}, 2);
        const auto fn = [unused, w](at::Tensor h) {
          const auto dead = h * unused;
          return (h * w).tanh() + dead.detach();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad(), unused.grad(), w.grad()};
      },
      all_ways());
}

TEST(LawOutputs, OneOfSeveralResultsIsUsed) {
  for (const int used : {0, 1, 2}) {
    law(
        [used](const Way& way) {
          auto x = sine_leaf({4}), w = sine_leaf({4}, 1), v = sine_leaf({4}, 2);
          const auto fn = [w, v](at::Tensor h) {
            return std::vector{(h * w).tanh(), (h * v).exp(), h.sin().cos()};
          };
          way(fn, x)[static_cast<size_t>(used)].sum().backward();
          return Tensors{x.grad(), w.grad(), v.grad()};
        },
        all_ways());
  }
}

TEST(LawOutputs, AResultWithoutGradientBesideOneWithGradient) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          return std::tuple(h.tanh(), h.argsort(), (h.detach() * 2), (h > 0));
        };
        const auto [y, order, twice, positive] = way(fn, x);
        (y * twice).index_select(0, order).masked_fill(positive, 0).sum().backward();
        return Tensors{x.grad(), order, twice, positive};
      },
      all_ways());
}

TEST(LawOutputs, TheSameResultTwice) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          const auto y = h.tanh();
          return std::pair(y, y);
        };
        const auto [a, b] = way(fn, x);
        (a * b.exp()).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawOutputs, AnUndefinedResult) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    const auto fn = [](at::Tensor h) { return std::pair(h.tanh().exp(), at::Tensor()); };
    const auto [y, nothing] = way(fn, x);
    y.sum().backward();
    return Tensors{x.grad(), nothing};
  });
}

TEST(LawOutputs, AResultLeavesByACapturedReference) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    at::Tensor aside;
    const auto fn = [&aside](at::Tensor h) {
      h = h.tanh();
      const auto other = h.exp();
      if (!aside.defined()) {
        aside = other;
      }
      return h.sin();
    };
    const auto y = way(fn, x);
    (y + aside).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawOutputs, GradientsOfZeroAreNotUndefined) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        const auto y = way([w](at::Tensor h) { return (h * w).tanh(); }, x);
        (y * 0).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      all_ways());
}

TEST(LawOutputs, GradientsThatAreExpanded) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 4}), w = sine_leaf({4, 4}, 1);
        const auto y = way([w](at::Tensor h) { return h + w; }, x);
        y.sum().backward();
        y.mean().backward();
        return Tensors{x.grad(), w.grad(), appearance(x.grad()), appearance(w.grad())};
      },
      ways());
}

}  // namespace
}  // namespace reprise::testing
