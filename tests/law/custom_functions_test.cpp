// Custom autograd functions in regions.
#include "law/programs.h"

namespace reprise::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Runs `fn` in a region between two other operators.
Program around(const std::function<at::Tensor(at::Tensor, const at::Tensor& w)>& fn) {
  return [fn](const Way& way) {
    auto x = sine_leaf({8}), w = sine_leaf({8}, 1);
    const auto y = way([fn, w](at::Tensor h) { return fn(h.sin(), w).tanh(); }, x);
    y.sum().backward();
    return Tensors{y.detach(), x.grad(), w.grad()};
  };
}

/// Saves its input, its result and a tensor that is neither.
struct CubeSavingAll : Function<CubeSavingAll> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    const auto square = x * x;
    auto result = square * x;
    ctx->save_for_backward({x, square, result});
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {grads[0] * saved[1] * 3 + saved[0] * 0 + saved[2] * 0};
  }
};

TEST(LawCustomFunctions, SavesInputIntermediateAndResult) {
  law(around([](at::Tensor h, const at::Tensor&) { return CubeSavingAll::apply(h); }), all_ways());
}

TEST(LawCustomFunctions, RunsTwiceInOneRegion) {
  law(around([](at::Tensor h, const at::Tensor&) {
        return CubeSavingAll::apply(CubeSavingAll::apply(h)) * 0.5;
      }),
      all_ways());
}

TEST(LawCustomFunctions, IsTheLastOperatorOfARegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        way([](at::Tensor h) { return CubeSavingAll::apply(h); }, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

/// Keeps its tensors in the context's dictionary, which no hook sees.
struct ScaleByDictionary : Function<ScaleByDictionary> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x, at::Tensor w) {
    ctx->saved_data["w"] = w.detach().clone();
    ctx->saved_data["x"] = x.detach().clone();
    return x * w;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->saved_data["w"].toTensor(), grads[0] * ctx->saved_data["x"].toTensor()};
  }
};

TEST(LawCustomFunctions, KeepsTensorsInItsDictionary) {
  law(around([](at::Tensor h, const at::Tensor& w) { return ScaleByDictionary::apply(h, w); }),
      all_ways());
}

struct DoubleInPlace : Function<DoubleInPlace> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    ctx->save_for_backward({x});
    return x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    ctx->get_saved_variables();
    return {grads[0] * 2};
  }
};

TEST(LawCustomFunctions, WritesItsInput) {
  law(around([](at::Tensor h, const at::Tensor&) { return DoubleInPlace::apply(h * 1); }),
      all_ways());
}

TEST(LawCustomFunctions, WritesTheRegionsInput) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({8});
        way([](at::Tensor h) { return DoubleInPlace::apply(h).tanh(); }, x * 1).sum().backward();
        return Tensors{x.grad()};
      },
      "in place",
      all_ways());
}

struct NoiseAndIndex : Function<NoiseAndIndex> {
  static variable_list forward(AutogradContext* ctx, at::Tensor x, double scale) {
    const auto noise = torch::randn_like(x) * scale;
    auto index = x.argmax();
    ctx->save_for_backward({noise});
    ctx->mark_non_differentiable({index});
    return {x * noise, index};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0], at::Tensor()};
  }
};

TEST(LawCustomFunctions, DrawsItsOwnNoise) {
  law(around([](at::Tensor h, const at::Tensor& w) {
        const auto results = NoiseAndIndex::apply(h * w, 0.5);
        return torch::dropout(results[0], 0.5, true) + results[1];
      }),
      all_ways());
}

struct SavesNothingDefined : Function<SavesNothingDefined> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({at::Tensor(), x, at::Tensor()});
    return x.exp();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {saved[0].defined() ? at::Tensor() : grads[0] * saved[1].exp()};
  }
};

TEST(LawCustomFunctions, SavesUndefinedTensors) {
  law(around([](at::Tensor h, const at::Tensor&) { return SavesNothingDefined::apply(h); }),
      all_ways());
}

struct SavesTwice : Function<SavesTwice> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x, x, x.view({-1, 2}), x.narrow(0, 0, 4)});
    return x.exp();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    EXPECT_TRUE(torch::equal(saved[2].reshape({-1}), saved[1]));
    return {grads[0] * saved[0].exp() + saved[3].sum() * 0};
  }
};

TEST(LawCustomFunctions, SavesOneTensorSeveralTimes) {
  law(around([](at::Tensor h, const at::Tensor&) { return SavesTwice::apply(h); }), all_ways());
}

struct UnpacksNever : Function<UnpacksNever> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x * 3;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 3}; }
};

TEST(LawCustomFunctions, NeverAsksForWhatItSaved) {
  law(around([](at::Tensor h, const at::Tensor&) { return UnpacksNever::apply(h); }), all_ways());
}

/// Counts into a buffer while it runs forward.
struct CountsForwards : Function<CountsForwards> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x, at::Tensor counter) {
    counter.add_(1);
    ctx->save_for_backward({x, counter.clone()});
    return x * counter;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[1], at::Tensor()};
  }
};

TEST(LawCustomFunctions, CountsIntoABuffer) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8}), counter = torch::zeros({});
        const auto fn = [counter](at::Tensor h) {
          return CountsForwards::apply(h, counter).tanh();
        };
        way(fn, way(fn, x)).sum().backward();
        return Tensors{x.grad(), counter};
      },
      all_ways());
}

/// Differentiates inside its forward, as older checkpoints and implicit layers do.
struct GradientInForward : Function<GradientInForward> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    const torch::AutoGradMode enabled(true);
    auto leaf_inside = x.detach().set_requires_grad(true);
    const auto slope =
        torch::autograd::grad({leaf_inside.square().sin().sum()}, {leaf_inside})[0].detach();
    ctx->save_for_backward({slope});
    return x.square().sin().detach();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

TEST(LawCustomFunctions, DifferentiatesInForward) {
  law(around([](at::Tensor h, const at::Tensor&) { return GradientInForward::apply(h); }));
}

/// A region inside a custom function's forward, differentiated in its backward.
struct RegionInside : Function<RegionInside> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x.tanh().exp();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const torch::AutoGradMode enabled(true);
    auto x = ctx->get_saved_variables()[0].detach().set_requires_grad(true);
    const auto y = checkpoint([](at::Tensor h) { return h.tanh().exp(); }, x);
    return torch::autograd::grad({y}, {x}, {grads[0]});
  }
};

TEST(LawCustomFunctions, RunsARegionInItsBackward) {
  law(around([](at::Tensor h, const at::Tensor&) { return RegionInside::apply(h); }));
}

struct SmoothSquare : Function<SmoothSquare> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0] * 2};
  }
};

TEST(LawCustomFunctions, IsDifferentiatedTwice) {
  law([](const Way& way) {
    auto x = sine_leaf({8}, 0, at::kDouble);
    const auto y = way([](at::Tensor h) { return SmoothSquare::apply(h.sin()).exp(); }, x).sum();
    const auto slope = torch::autograd::grad({y}, {x}, {}, true, true)[0];
    slope.square().sum().backward();
    return Tensors{slope.detach(), x.grad()};
  });
}

struct ThrowsInBackward : Function<ThrowsInBackward> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x) {
    ctx->save_for_backward({x});
    return x.clone();
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    ctx->get_saved_variables();
    TORCH_CHECK(false, "the function's backward failed");
  }
};

TEST(LawCustomFunctions, ABackwardThatThrowsLeavesTheNextStepAlone) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        const auto bad = way([](at::Tensor h) { return ThrowsInBackward::apply(h.sin()); }, x);
        EXPECT_THROW(bad.sum().backward(), c10::Error);
        x.mutable_grad().reset();
        way([](at::Tensor h) { return CubeSavingAll::apply(h.sin()); }, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
