// Tensors that share a storage, written in regions inside regions: arguments, views of arguments,
// and captures of one and the same buffer.
#include "law/law.h"

#include <memory>
#include <tuple>

namespace reprise::testing {
namespace {

/// Adds a detached value.
void bump(const at::Tensor& buffer, const at::Tensor& value) {
  const torch::NoGradGuard no_grad;
  buffer.add_(value.detach());
}

/// Runs `outer` as a region over a leaf, and returns the gradient.
template <class Outer>
Seen gradient_through(const Way& way, const Outer& outer) {
  const auto x = leaf({4});
  way(outer, x).sum().backward();
  return {x.grad()};
}

/// Reads a buffer, then writes it.
at::Tensor read_and_bump(const at::Tensor& h, const at::Tensor& buffer) {
  const auto next = (h * (buffer.clone() + 1)).tanh();
  bump(buffer, next);
  return next;
}

TEST(LawAliases, TheBufferOfAnOuterRegionIsAnArgumentOfInnerOnes) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, AViewOfTheBufferIsAnArgument) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({3, 4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer[i]);
        h = way(read_and_bump, h, buffer[0]);
      }
      return h.exp() * buffer.sum(0);
    });
  });
}

TEST(LawAliases, ATransposedViewIsAnArgument) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4, 4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer.t().select(0, i));
        h = way(read_and_bump, h, buffer.diagonal());
      }
      return h.exp() * buffer.sum(0);
    });
  });
}

TEST(LawAliases, TwoArgumentsAreOneBuffer) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto inner = [](at::Tensor value, at::Tensor a, at::Tensor b) {
        const auto next = (value * (a.clone() + 1)).tanh();
        bump(b, next);
        return next * (a.clone() + 2).exp();
      };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h, buffer, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, TwoArgumentsOverlap) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::linspace(0, 1, 6);
      const auto inner = [](at::Tensor value, at::Tensor a, at::Tensor b) {
        const auto next = (value * (a.clone() + 1)).tanh();
        bump(b, next);
        return next * (a.clone() + 2).exp();
      };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h, buffer.narrow(0, 0, 4), buffer.narrow(0, 2, 4));
        h = way(inner, h, buffer.narrow(0, 1, 4), buffer.narrow(0, 0, 4).detach());
      }
      return h.exp() * buffer.narrow(0, 1, 4);
    });
  });
}

TEST(LawAliases, AnArgumentAndACaptureAreOneBuffer) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto inner = [buffer](at::Tensor value, at::Tensor same) {
        const auto next = (value * (same.clone() + 1)).tanh();
        bump(buffer, next);
        return next * (same.clone() + 2).exp();
      };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h, buffer.view({2, 2}).view({4}));
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, TheInnerRegionCapturesTheBuffer) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto inner = [buffer](at::Tensor value) { return read_and_bump(value, buffer); };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, TheProgramsBufferIsAnArgumentOfEveryLevel) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto buffer = torch::zeros({4});
    const auto outer = [way](at::Tensor h, at::Tensor sum) {
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, sum);
      }
      bump(sum, h);
      return h.exp() * sum.clone();
    };
    way(outer, way(outer, x, buffer), buffer).sum().backward();
    return Seen{x.grad(), buffer};
  });
}

TEST(LawAliases, ThreeLevels) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto middle = [way](at::Tensor value, at::Tensor sum) {
        value = way(read_and_bump, value, sum);
        bump(sum, value.sin());
        return way(read_and_bump, value, sum.view({2, 2}).view({4})).exp();
      };
      for (int i = 0; i < 2; ++i) {
        h = way(middle, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, ThreeLevelsWithACaptureInTheMiddle) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto middle = [way, buffer](at::Tensor value) {
        value = way(read_and_bump, value, buffer);
        const auto inner = [buffer](at::Tensor v) { return read_and_bump(v, buffer); };
        return way(inner, value).exp();
      };
      for (int i = 0; i < 2; ++i) {
        h = way(middle, h);
      }
      return h.exp() * buffer;
    });
  });
}

/// One level runs as the way says, the other with a policy.
void law_with_policy_on(bool outer_has_it) {
  law([outer_has_it](const Way& way) {
    const auto with_policy = [](CheckpointOptions& options) { options.policy = keep_some(); };
    const auto as_it_is = [](CheckpointOptions&) {};
    const auto outer = [=](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = outer_has_it ? way.with(as_it_is, read_and_bump, h, buffer)
                         : way.with(with_policy, read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    };
    const auto x = leaf({4});
    (outer_has_it ? way.with(with_policy, outer, x) : way.with(as_it_is, outer, x))
        .sum()
        .backward();
    return Seen{x.grad()};
  });
}

TEST(LawAliases, APolicyOnTheOuterRegion) {
  law_with_policy_on(true);
}

TEST(LawAliases, APolicyOnTheInnerRegions) {
  law_with_policy_on(false);
}

TEST(LawAliases, ReentrantRegionsInsideADefaultOne) {
  law([](const Way& way) {
    const auto make_reentrant = [](CheckpointOptions& options) {
      options = {.use_reentrant = true, .name = "attacked"};
    };
    return gradient_through(way, [=](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way.with(make_reentrant, read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, DefaultRegionsInsideAReentrantOne) {
  law([](const Way& way) {
    const auto make_reentrant = [](CheckpointOptions& options) {
      options = {.use_reentrant = true, .name = "attacked"};
    };
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    };
    way.with(make_reentrant, outer, x).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawAliases, TheBufferIsReadBeforeAndAfter) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::ones({4});
      for (int i = 0; i < 3; ++i) {
        h = h.sin() * buffer.clone();
        h = way(read_and_bump, h, buffer);
        h = (h * buffer.clone()).exp();
      }
      return h;
    });
  });
}

TEST(LawAliases, TheOuterRegionWritesBetweenInnerOnes) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::ones({4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer);
        buffer.mul_(0.5);
        bump(buffer.narrow(0, 1, 2), h.narrow(0, 1, 2));
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, TheInnerRegionReturnsAViewOfTheBuffer) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::ones({2, 4});
      const auto inner = [](at::Tensor value, at::Tensor sum) {
        const auto next = read_and_bump(value, sum[0]);
        return std::make_tuple(next, sum.view({8}).narrow(0, 0, 4));
      };
      for (int i = 0; i < 3; ++i) {
        const auto [next, view] = way(inner, h, buffer);
        h = next.exp() * view.clone();
      }
      return h;
    });
  });
}

TEST(LawAliases, TheInnerRegionReturnsTheBufferItself) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      auto buffer = torch::ones({4});
      const auto inner = [](at::Tensor value, at::Tensor sum) {
        return std::make_tuple(read_and_bump(value, sum), sum);
      };
      for (int i = 0; i < 3; ++i) {
        std::tie(h, buffer) = way(inner, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawAliases, ABufferMadeByOneInnerRegionIsWrittenByTheNext) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto make = [](at::Tensor value) {
        return std::make_tuple(value.sin().exp(), value.detach().clone());
      };
      auto [next, buffer] = way(make, h);
      for (int i = 0; i < 3; ++i) {
        next = way(read_and_bump, next, buffer);
      }
      return next.exp() * buffer;
    });
  });
}

TEST(LawAliases, AnIntegerCounterOfTheOuterRegion) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto count = torch::zeros({}, torch::kLong);
      const auto inner = [](at::Tensor value, at::Tensor steps) {
        steps += 1;
        return (value * steps.to(torch::kFloat)).tanh();
      };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h, count);
      }
      return h.exp() * count;
    });
  });
}

TEST(LawAliases, ADetachedActivationIsWritten) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto copy = h.exp().detach();
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, copy);
      }
      return h.exp() * copy;
    });
  });
}

TEST(LawAliases, BackwardRunsTwice) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto buffer = torch::zeros({2, 4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer[i % 2]);
      }
      return h.exp() * buffer.sum(0);
    };
    const auto y = way(outer, way(outer, x));
    y.sum().backward({}, /*retain_graph=*/true);
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return Seen{x.grad(), slope};
  });
}

TEST(LawAliases, ALeafArgumentOfAnInnerRegionIsUpdatedThere) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto weight = torch::ones({4}).set_requires_grad(true);
      const auto inner = [](at::Tensor value, at::Tensor w) {
        const auto next = (value * w.clone()).tanh();
        bump(w, next);
        return next;
      };
      for (int i = 0; i < 3; ++i) {
        h = way(inner, h, weight);
      }
      return h.exp() * weight;
    });
  });
}

}  // namespace
}  // namespace reprise::testing
