// Results written with their history into tensors that were allocated before the region. A
// reentrant region computes without history, so it has to refuse.
#include "law/law.h"

#include <memory>
#include <optional>

namespace reprise::testing {
namespace {

/// The same for programs whose loss has no other history: LibTorch itself says that it has none.
void law_or_without_grad_fn(const Program& program) {
  law(program);
  law_or_refused(program, "grad_fn", {reentrant()});
}

TEST(LawPreallocated, ACapturedOutputIsCopiedInto) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    const auto fn = [out](at::Tensor h) {
      h = h.exp().sin();
      out.copy_(h);
      return h;
    };
    const auto y = way(fn, x);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, AnArgumentIsCopiedInto) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    const auto fn = [](at::Tensor h, at::Tensor target) {
      h = h.exp().sin();
      target.copy_(h);
      return h;
    };
    const auto y = way(fn, x, out);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, TheArgumentIsReturned) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h, at::Tensor target) {
      target.copy_(h.exp().sin());
      return target;
    };
    const auto y = way(fn, x, torch::zeros({4}));
    way(fn, y, torch::zeros({4})).exp().sum().backward();
    return Seen{x.grad(), y};
  });
}

TEST(LawPreallocated, NothingIsReturned) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    way([out](at::Tensor h) { out.copy_(h.exp().sin()); }, x);
    out.exp().sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, SlicesAreWrittenByRegionsInALoop) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({3, 4});
    auto h = x;
    for (int i = 0; i < 3; ++i) {
      const auto fn = [out, i](at::Tensor value) {
        value = value.exp().sin();
        out[i].copy_(value);
        return value;
      };
      h = way(fn, h);
    }
    (out.exp().sum(0) * h).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, NarrowedSlicesOfAnArgument) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({8});
    auto h = x;
    for (int i = 0; i < 4; ++i) {
      const auto fn = [](at::Tensor value, at::Tensor target) {
        value = value.exp().sin();
        target.copy_(value.narrow(0, 0, 2));
        return value;
      };
      h = way(fn, h, out.narrow(0, 2 * i, 2));
    }
    (out.exp().sum() * h).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, IndexCopy) {
  law_or_without_grad_fn([](const Way& way) {
    const auto x = leaf({2, 4});
    const auto out = torch::zeros({5, 4});
    auto h = x;
    for (int i = 0; i < 2; ++i) {
      const auto fn = [out, i](at::Tensor value) {
        value = value.exp().sin();
        out.index_copy_(0, torch::tensor({2 * i, 2 * i + 1}), value);
        return value;
      };
      h = way(fn, h);
    }
    out.exp().sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, IndexPutAndMaskedScatter) {
  law_or_without_grad_fn([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({6});
    const auto fn = [out](at::Tensor h) {
      h = h.exp().sin();
      out.index_put_({torch::tensor({0, 2, 4, 5})}, h);
      out.masked_fill_(torch::arange(6) == 2, 0.5);
      return h;
    };
    way(fn, x);
    out.exp().sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, AccumulatedIntoByEveryRegion) {
  law_or_without_grad_fn([](const Way& way) {
    const auto x = leaf({4});
    const auto total = torch::zeros({4});
    const auto fn = [total](at::Tensor h) {
      h = h.exp().sin();
      total.add_(h);
      return h;
    };
    way(fn, way(fn, way(fn, x)));
    total.exp().sum().backward();
    return Seen{x.grad(), total};
  });
}

TEST(LawPreallocated, AccumulatedIntoWithAFactor) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto product = torch::ones({4});
    const auto fn = [product](at::Tensor h) {
      h = h.exp().sin();
      product.mul_(h);
      return h;
    };
    const auto y = way(fn, way(fn, x));
    (product.exp() * y).sum().backward();
    return Seen{x.grad(), product};
  });
}

// Running such a region again gives the tensor a second history.
TEST(LawPreallocated, AnOutputThatHasAHistoryAlready) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), root = leaf({4});
        const auto out = root.sin();
        const auto fn = [out](at::Tensor h) {
          h = h.exp().sin();
          out.mul_(h);
          return h;
        };
        const auto y = way(fn, x);
        (out.exp() * y).sum().backward();
        return Seen{x.grad(), root.grad(), out};
      },
      "attacked",
      all_ways());
}

TEST(LawPreallocated, ASliceOfAnOutputThatHasAHistoryAlready) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), root = leaf({2, 4});
        const auto out = root * 2;
        const auto fn = [](at::Tensor h, at::Tensor target) {
          h = h.exp().sin();
          target[1].copy_(h);
          return h;
        };
        const auto y = way(fn, x, out);
        (out.exp() * y).sum().backward();
        return Seen{x.grad(), root.grad(), out};
      },
      "attacked",
      all_ways());
}

TEST(LawPreallocated, ReadBeforeItIsWritten) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::linspace(0, 1, 4);
    const auto fn = [out](at::Tensor h) {
      h = (h.exp() * out.clone()).sin();
      out.copy_(h);
      return h;
    };
    const auto y = way(fn, x);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, ReadAfterItWasWritten) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({2, 4});
    const auto fn = [out](at::Tensor h) {
      out[0].copy_(h.exp().sin());
      out[1].copy_(out[0].exp());
      return out.sum(0).sin();
    };
    const auto y = way(fn, x);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, WrittenByInnerRegionsOfOneThatMadeIt) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto out = torch::zeros({3, 4});
      for (int i = 0; i < 3; ++i) {
        const auto inner = [](at::Tensor value, at::Tensor target) {
          value = value.exp().sin();
          target.copy_(value);
          return value;
        };
        h = way(inner, h, out[i]);
      }
      return out.exp().sum(0) * h;
    };
    way(outer, way(outer, x)).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawPreallocated, WrittenByInnerRegionsThatCaptureIt) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({3, 4});
    const auto outer = [way, out](at::Tensor h) {
      for (int i = 0; i < 3; ++i) {
        const auto inner = [out, i](at::Tensor value) {
          value = value.exp().sin();
          out[i].copy_(value);
          return value;
        };
        h = way(inner, h);
      }
      return h;
    };
    const auto y = way(outer, x);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, ThenChangedOutside) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    const auto fn = [out](at::Tensor h) {
      h = h.exp().sin();
      out.copy_(h);
      return h;
    };
    const auto y = way(fn, x);
    out.mul_(2).add_(y.exp());
    out.sin().sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawPreallocated, BackwardRunsTwice) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    const auto fn = [out](at::Tensor h) {
      h = h.exp().sin();
      out.copy_(h);
      return h.exp();
    };
    const auto y = way(fn, x);
    const auto loss = (out.exp() * y).sum();
    loss.backward({}, /*retain_graph=*/true);
    const auto slope = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return Seen{x.grad(), out, slope};
  });
}

TEST(LawPreallocated, DroppedAndMadeAnewEveryStep) {
  law([](const Way& way) {
    const auto weight = leaf({4});
    Seen seen;
    for (int step = 0; step < 3; ++step) {
      const auto out = torch::empty({2, 4});
      for (int i = 0; i < 2; ++i) {
        const auto fn = [weight](at::Tensor h, at::Tensor target) {
          target.copy_(torch::dropout((h * weight).exp(), 0.5, true).sin());
        };
        way(fn, torch::ones({4}), out[i]);
      }
      out.exp().sum().backward();
      seen.push_back(out.detach());
    }
    seen.push_back(weight.grad());
    return seen;
  });
}

TEST(LawPreallocated, ALeafSliceThatRequiresGradIsRefusedAsPlainly) {
  const Program program = [](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    way([weight](at::Tensor h) { weight.copy_(h.exp()); }, x);
    return Seen{weight};
  };
  EXPECT_THROW(observe(program, Way()), c10::Error);
  refused(program, "leaf");
}

}  // namespace
}  // namespace reprise::testing
