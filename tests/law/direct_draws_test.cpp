// Random numbers that come from custom operators, or from a generator without any operator; and
// where draws stand among nested regions.
#include "law/law.h"

#include <torch/library.h>

#include <memory>
#include <mutex>

namespace reprise::testing {
namespace {

/// Draws a number without any operator.
double draw_directly(const at::Generator& source) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(source);
  const std::scoped_lock lock(cpu->mutex_);
  return static_cast<double>(cpu->random() % 1000) / 1000;
}

at::Tensor drawn_by_kernel(const at::Tensor& like) {
  return at::rand(like.sizes()) + at::randn(like.sizes());
}

at::Tensor drawn_directly(const at::Tensor& like) {
  const auto source = at::detail::getDefaultCPUGenerator();
  return at::full(like.sizes(), draw_directly(source));
}

at::Tensor drawn_from_argument(const at::Tensor& like, std::optional<at::Generator> source) {
  return at::full(like.sizes(), draw_directly(*source));
}

void write_drawn(at::Tensor& target) {
  target.copy_(at::rand(target.sizes()));
}

// Without the tag nondeterministic_seeded, as most operators of other libraries are.
TORCH_LIBRARY(law_direct_draws_test, m) {
  m.def("by_kernel(Tensor like) -> Tensor");
  m.def("composite(Tensor like) -> Tensor", drawn_by_kernel);
  m.def("directly(Tensor like) -> Tensor");
  m.def("from_argument(Tensor like, Generator? source) -> Tensor");
  m.def("fill_(Tensor(a!) target) -> ()");
}
TORCH_LIBRARY_IMPL(law_direct_draws_test, CPU, m) {
  m.impl("by_kernel", drawn_by_kernel);
  m.impl("directly", drawn_directly);
  m.impl("from_argument", drawn_from_argument);
  m.impl("fill_", write_drawn);
}

at::Tensor call_drawing_op(const std::string& name, const at::Tensor& like) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(("law_direct_draws_test::" + name).c_str(), "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(like.detach());
}

at::Tensor with_dropout(const at::Tensor& x) {
  return torch::dropout(x, 0.5, true);
}

const auto keep_by_kernel = [](CheckpointOptions& options) {
  if (!options.use_reentrant) {
    options.policy = policy::save_ops({"law_direct_draws_test::by_kernel"});
  }
};

TEST(LawDirectDraws, AnUntaggedOperatorWhoseKernelCallsRand) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          return with_dropout(h.exp() * call_drawing_op("by_kernel", h)).sin();
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawDirectDraws, AnUntaggedOperatorThatIsKept) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto fn = [](at::Tensor h) {
      return with_dropout(h.exp() * call_drawing_op("by_kernel", h)).sin();
    };
    const auto y = way.with(keep_by_kernel, fn, way.with(keep_by_kernel, fn, x));
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawDirectDraws, AnUntaggedOperatorThatIsKeptOnceOfTwice) {
  law([](const Way& way) {
    const auto keep_first = [](CheckpointOptions& options) {
      options.policy = policy::from([](const OpContext& op) {
        const bool is_first = op.name.ends_with("by_kernel") && op.call_index == 0;
        return is_first ? Decision::Keep : Decision::Recompute;
      });
    };
    const auto x = leaf({64});
    const auto fn = [](at::Tensor h) {
      h = with_dropout(h.exp() * call_drawing_op("by_kernel", h));
      return with_dropout(h.exp() * call_drawing_op("by_kernel", h)).sin();
    };
    const auto y = way.with(keep_first, fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawDirectDraws, AnUntaggedComposite) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          return with_dropout(h.exp() * call_drawing_op("composite", h)).sin();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawDirectDraws, AnUntaggedOperatorThatFillsItsArgument) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto buffer = torch::zeros({64});
        const auto fn = [buffer](at::Tensor h) {
          c10::Dispatcher::singleton()
              .findSchemaOrThrow("law_direct_draws_test::fill_", "")
              .typed<void(at::Tensor&)>()
              .call(const_cast<at::Tensor&>(buffer));
          return with_dropout(h.exp() * buffer.clone()).sin();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      all_ways());
}

TEST(LawDirectDraws, AnOperatorThatDrawsFromTheDefaultGeneratorWithoutOperators) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          return with_dropout(h.exp() * call_drawing_op("directly", h)).sin();
        };
        const auto y = way(fn, x);
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      "attacked",
      all_ways());
}

TEST(LawDirectDraws, AnOperatorThatDrawsFromItsGeneratorArgument) {
  law(
      [](const Way& way) {
        const auto source = at::detail::createCPUGenerator(7);
        const auto x = leaf({64});
        const auto fn = [source](at::Tensor h) {
          const auto noise =
              c10::Dispatcher::singleton()
                  .findSchemaOrThrow("law_direct_draws_test::from_argument", "")
                  .typed<at::Tensor(const at::Tensor&, std::optional<at::Generator>)>()
                  .call(h.detach(), source);
          return h.exp() * noise;
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3}, source);
        y.sum().backward();
        return Seen{x.grad(), source.get_state()};
      },
      all_ways());
}

TEST(LawDirectDraws, ARegionThatDrawsFromTheDefaultGeneratorWithoutOperators) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          return (h * draw_directly(at::detail::getDefaultCPUGenerator())).exp();
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      "attacked",
      // A policy may keep all that depends on the number: then only the generator's state differs.
      {ways()[0], ways()[1], ways()[3], reentrant()});
}

TEST(LawDirectDraws, TheDefaultGeneratorIsListed) {
  law(
      [](const Way& way) {
        const auto list = [](CheckpointOptions& options) {
          options.generators = {at::detail::getDefaultCPUGenerator()};
        };
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          h = (h * draw_directly(at::detail::getDefaultCPUGenerator())).exp();
          return with_dropout(h) * torch::randn({3}).sum();
        };
        const auto y = way.with(list, fn, way.with(list, fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawDirectDraws, AnotherGeneratorIsListed) {
  law(
      [](const Way& way) {
        const auto source = at::detail::createCPUGenerator(7);
        const auto list = [&](CheckpointOptions& options) { options.generators = {source}; };
        const auto x = leaf({64});
        const auto fn = [source](at::Tensor h) {
          for (int i = 0; i < 3; ++i) {
            h = (h * draw_directly(source)).exp() * torch::rand({64}, source);
          }
          return h;
        };
        const auto y = way.with(list, fn, way.with(list, fn, x));
        draw_directly(source);
        y.sum().backward();
        return Seen{x.grad(), source.get_state()};
      },
      all_ways());
}

TEST(LawDirectDraws, AnUndefinedGeneratorInTheListIsRefusedAtOnce) {
  refused(
      [](const Way& way) {
        const auto list = [](CheckpointOptions& options) {
          options.generators = {at::Generator()};
        };
        return Seen{way.with(
            list, [](at::Tensor h) { return h.exp(); }, leaf({64}))};
      },
      "generator",
      all_ways());
}

TEST(LawDirectDraws, BeforeInsideAndAfterNestedRegions) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto inner = [](at::Tensor h) { return with_dropout(h.exp()).sin(); };
    const auto outer = [way, inner](at::Tensor h) {
      h = with_dropout(h.exp());
      h = way(inner, h) * torch::rand({64});
      h = way(inner, h) * torch::randn({64});
      return with_dropout(h).exp();
    };
    const auto y = way(outer, with_dropout(way(outer, x)));
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad(), torch::rand({3})};
  });
}

TEST(LawDirectDraws, AnInnerRegionOfAnotherGenerator) {
  law([](const Way& way) {
    const auto source = at::detail::createCPUGenerator(7);
    const auto x = leaf({64});
    const auto inner = [source](at::Tensor h) { return h.exp() * torch::rand({64}, source); };
    const auto outer = [=](at::Tensor h) {
      h = way(inner, h * torch::rand({64}, source));
      return way(inner, with_dropout(h)) * torch::rand({64}, source);
    };
    const auto y = way(outer, way(outer, x));
    torch::rand({3}, source);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), source.get_state()};
  });
}

TEST(LawDirectDraws, NumbersDrawnBetweenTwoBackwardCalls) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto fn = [](at::Tensor h) { return with_dropout(with_dropout(h.exp()).sin()).exp(); };
    const auto y = way(fn, way(fn, x));
    y.sum().backward({}, /*retain_graph=*/true);
    const auto drawn = torch::rand({3});
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return Seen{x.grad(), drawn, torch::rand({3})};
  });
}

TEST(LawDirectDraws, RandomStateIsNotPreservedOnRequestButTheProgramsNumbersAre) {
  // Without preserve_rng_state the recompute draws anew, by request; a region that draws nothing
  // is not concerned.
  law(
      [](const Way& way) {
        const auto skip = [](CheckpointOptions& options) { options.preserve_rng_state = false; };
        const auto x = leaf({64});
        const auto y = way.with(
            skip, [](at::Tensor h) { return h.exp().sin(); }, x);
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad(), torch::rand({3})};
      },
      all_ways());
}

// Forward finds the generator in the state that it leaves.
TEST(LawDirectDraws, ARegionSeedsAsItWas) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    torch::manual_seed(1);
    const auto y = way([x] {
      const auto product = torch::mm(x, x);
      torch::manual_seed(1);
      return product.sin();
    });
    torch::rand({2});
    y.sum().backward();
    return Seen{x.grad(), torch::rand({2})};
  });
}

// As it was, too, and it draws afterwards.
TEST(LawDirectDraws, ARegionSeedsAsItWasAndDraws) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    torch::manual_seed(1);
    const auto y = way([x] {
      torch::manual_seed(1);
      return torch::dropout(torch::mm(x, x).sin(), 0.5, true);
    });
    y.sum().backward();
    return Seen{x.grad(), torch::rand({2})};
  });
}

// The recompute stops in between, in a state that forward never showed.
TEST(LawDirectDraws, ARegionSeedsTwice) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto y = way([x] {
      torch::manual_seed(8);
      const auto product = torch::mm(x, x);
      torch::manual_seed(2);
      return product;
    });
    y.sum().backward();
    return Seen{x.grad(), torch::rand({2})};
  });
}

}  // namespace
}  // namespace reprise::testing
