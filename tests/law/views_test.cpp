// Views and in-place operators across the edges of regions.
#include "law/programs.h"

namespace reprise::testing {
namespace {

/// A region of one input; `after` continues with its result.
Program viewing(
    const std::function<at::Tensor(at::Tensor)>& fn,
    const std::function<at::Tensor(at::Tensor)>& after = [](at::Tensor y) { return y; }) {
  return [=](const Way& way) {
    auto x = sine_leaf({4, 4});
    const auto y = after(way(fn, x.sin()));
    y.sum().backward();
    return Tensors{y.detach(), x.grad()};
  };
}

TEST(LawViews, AnInPlaceOperatorOnAViewInside) {
  law(viewing([](at::Tensor h) {
        h = h.sin();
        h.narrow(0, 0, 2).mul_(2);
        return h.tanh();
      }),
      all_ways());
}

TEST(LawViews, AnInPlaceOperatorOnAViewOfAView) {
  law(viewing([](at::Tensor h) {
        h = h * 2;
        h.view({2, 8}).t().narrow(0, 1, 3).copy_(sines({3, 2}));
        h.diagonal().zero_();
        return h.tanh().exp();
      }),
      all_ways());
}

TEST(LawViews, AssignmentByIndex) {
  law(viewing([](at::Tensor h) {
        auto out = torch::zeros({4, 4});
        for (int64_t i = 0; i < 4; ++i) {
          out[i] = h[3 - i].tanh() * 2;
        }
        return out.exp();
      }),
      all_ways());
}

TEST(LawViews, AResultThatIsAViewOfTheInput) {
  law(viewing([](at::Tensor h) { return h.t(); }, [](at::Tensor y) { return y.tanh(); }),
      all_ways());
}

TEST(LawViews, AResultThatIsAViewOfAnActivation) {
  law(viewing(
          [](at::Tensor h) {
            return h.tanh().view({2, 8});
          },
          [](at::Tensor y) { return y.exp(); }),
      all_ways());
}

TEST(LawViews, TheInputReturnedUnchanged) {
  law(viewing([](at::Tensor h) { return h; }, [](at::Tensor y) { return y.exp(); }), all_ways());
}

TEST(LawViews, TheInputReturnedBesideAResult) {
  law([](const Way& way) {
    auto x = sine_leaf({4, 4});
    const auto [same, y] = way([](at::Tensor h) { return std::pair(h, h.tanh()); }, x.sin());
    (same * y).sum().backward();
    return Tensors{x.grad()};
  });
}

// Plain: the write comes after everything that needs the old content, or autograd refuses.
TEST(LawViews, AResultIsChangedInPlaceAfterwards) {
  law_or_refused(viewing([](at::Tensor h) { return h.sin() + 1; },
                         [](at::Tensor y) { return y.mul_(2).exp(); }),
                 "in place",
                 all_ways());
}

TEST(LawViews, AResultThatAutogradSavedIsChangedInPlaceAfterwards) {
  refused_as_plainly(
      viewing([](at::Tensor h) { return h.tanh(); }, [](at::Tensor y) { return y.mul_(2).exp(); }),
      ways());
}

// Reentrant: LibTorch refuses, see reentrant_outputs_test.cpp.
TEST(LawViews, TheInputReturnedUnchangedIsChangedInPlaceAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto y = way([](at::Tensor h) { return h; }, x * 2);
        y.add_(1);
        y.tanh().sum().backward();
        return Tensors{x.grad(), y.detach()};
      },
      "place",
      all_ways());
}

TEST(LawViews, TheInputReturnedBesideAResultIsChangedInPlaceAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto [same, y] =
            way([](at::Tensor h) { return std::pair(h, (h + 1).tanh()); }, x * 2);
        same.mul_(3);
        (same + y).sum().backward();
        return Tensors{x.grad(), same.detach()};
      },
      "place",
      all_ways());
}

TEST(LawViews, AViewOfTheInputIsChangedInPlaceAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto [half, y] =
            way([](at::Tensor h) { return std::pair(h.narrow(0, 0, 2), (h + 1).tanh()); }, x * 2);
        half.mul_(3);
        (half.sum() + y.sum()).backward();
        return Tensors{x.grad(), half.detach()};
      },
      "place",
      all_ways());
}

TEST(LawViews, TheInputIsChangedInPlaceAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto h = x * 2;
        const auto y = way([](at::Tensor v) { return (v + 1).tanh(); }, h);
        h.mul_(3);
        (h.sum() + y.sum()).backward();
        return Tensors{x.grad(), h.detach()};
      },
      "in place",
      all_ways());
}

TEST(LawViews, ChunksAreUsedSeparately) {
  law([](const Way& way) {
    auto x = sine_leaf({4, 6});
    const auto parts = way([](at::Tensor h) { return h.tanh().chunk(3, 1); }, x);
    (parts[0] * parts[2].exp()).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawViews, ChunksAreChangedInPlaceAfterwards) {
  refused_as_plainly(
      [](const Way& way) {
        auto x = sine_leaf({4, 6});
        const auto parts = way([](at::Tensor h) { return (h + 1).chunk(3, 1); }, x);
        at::Tensor first = parts[0];
        first.mul_(2);  // one of several views of one operator
        (first + parts[1]).sum().backward();
        return Tensors{x.grad()};
      },
      ways());
}

TEST(LawViews, NarrowedPartsAreChangedInPlaceAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 6});
        const auto fn = [](at::Tensor h) {
          h = h.sin() * 2;
          return std::pair(h.narrow(1, 0, 3), h.narrow(1, 3, 3));
        };
        const auto [a, b] = way(fn, x);
        a.add_(b);
        (a.exp() + b).sum().backward();
        return Tensors{x.grad()};
      },
      "in place",
      ways());
}

TEST(LawViews, StridesThatOverlap) {
  law(viewing([](at::Tensor h) { return h.as_strided({3, 3}, {2, 1}).tanh() * 2; }), all_ways());
  law(viewing([](at::Tensor h) { return h.exp().as_strided({4, 4}, {1, 4}).tanh(); }), all_ways());
}

TEST(LawViews, AViewOfTheInputIsWrittenInsideWithoutGradient) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        auto state = sines({4}, 1);
        const auto fn = [](at::Tensor h, at::Tensor s) {
          const auto y = h * s.clone();
          s.narrow(0, 0, 2).add_(y.detach().narrow(0, 0, 2));
          return y.tanh();
        };
        const auto y = way(fn, x, state);
        y.sum().backward();
        return Tensors{x.grad(), state};
      },
      "in place",
      all_ways());
}

TEST(LawViews, TheInputIsWrittenInsideWithHistory) {
  law_or_refused(viewing([](at::Tensor h) { return h.mul_(2).tanh(); }), "in place", all_ways());
}

TEST(LawViews, TheInputIsWrittenInsideThroughAViewWithHistory) {
  const auto program = viewing([](at::Tensor h) {
    h.narrow(0, 0, 2).mul_(2);
    return h.tanh();
  });
  law_or_refused(program, "in place");
  law_or_refused(program, "in-place operation", {reentrant()});
}

TEST(LawViews, ARowOfACapturedViewIsWrittenInsideWithHistory) {
  // After the region the captured view has a history, as its base has.
  law([](const Way& way) {
    const auto base = torch::arange(8, torch::kFloat).set_requires_grad(false);
    const auto table = base.reshape({4, 2});
    const auto row = leaf({2}), x = leaf({4, 2});
    const auto y = way(
        [table, row](at::Tensor h) {
          table.select(0, 1).copy_(row);
          return (h.exp() * table).sin();
        },
        x);
    (y.sum() + table.sum()).backward();
    return Seen{x.grad(), row.grad(), base, table};
  });
}

TEST(LawViews, ReluInPlaceOnAnActivation) {
  law(viewing([](at::Tensor h) {
        return (h * 2).relu_().mm(sines({4, 4})).sigmoid_();
      }),
      all_ways());
}

TEST(LawViews, TwoArgumentsThatAreTheSameTensor) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto h = x.sin();
        way([](at::Tensor a, at::Tensor b) { return (a * b.t()).tanh(); }, h, h).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawViews, TwoArgumentsThatOverlap) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        const auto h = x.sin();
        const auto fn = [](at::Tensor a, at::Tensor b) { return (a * b).tanh(); };
        way(fn, h.narrow(0, 0, 5), h.narrow(0, 3, 5)).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawViews, ADetachedResult) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    const auto [y, d] = way([](at::Tensor h) { return std::pair(h.tanh(), h.exp().detach()); }, x);
    (y * d).sum().backward();
    EXPECT_FALSE(d.requires_grad());
    return Tensors{x.grad(), d};
  });
}

TEST(LawViews, ADetachedResultIsWrittenAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto [y, d] = way(
            [](at::Tensor h) {
              h = h.exp();
              return std::pair((h + 1).sin(), h.detach());
            },
            x);
        // Shares memory with what exp saved: plain autograd notices that.
        const auto loss = y.sum();
        loss.backward();
        d.mul_(2);
        return Tensors{x.grad(), d};
      },
      "in place",
      ways());
}

TEST(LawViews, AResultIsResizedOrReplacedAfterwards) {
  law([](const Way& way) {
    auto x = sine_leaf({4});
    at::Tensor y = way([](at::Tensor h) { return h.sin() + 1; }, x);
    const auto loss = y.sum();
    y = y.detach();
    y.resize_({2});
    loss.backward();
    return Tensors{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
