// Tensors that share a storage, written in regions inside regions: arguments, views of arguments,
// and captures of one and the same buffer.
#include "law/buffers.h"
#include "law/law.h"

#include <tuple>

namespace reprise::testing {
namespace {

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
        return next * (a.clone() + 2).sin();
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
        return next * (a.clone() + 2).sin();
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
        return next * (same.clone() + 2).sin();
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
  const Program program = [](const Way& way) {
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
  };
  const auto all = ways();
  law(program, {all[0], all[1], all[3]});
  // The policy keeps the buffer itself, which may not change after its region.
  law_or_refused(program, "attacked", {all[2]});
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
