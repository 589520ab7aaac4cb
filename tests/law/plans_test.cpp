// Memory plans: steps that differ from the plan are refused, unusual steps can be planned, and no
// plan changes a bit.
#include "law/programs.h"

namespace reprise::testing {
namespace {

/// Blocks of a step, each a region. What `body` saves is large beside everything else.
struct PlannedStep {
  std::function<at::Tensor(size_t block, at::Tensor)> body;
  size_t blocks = 3;
  at::Tensor x = sine_leaf({64, 256});

  void operator()() const {
    at::Tensor h = x;
    for (size_t i = 0; i < blocks; ++i) {
      const auto fn = [of = body, i](at::Tensor v) { return of(i, v); };
      h = checkpoint({.name = "block" + std::to_string(i)}, fn, h);
    }
    h.square().sum().backward();
  }

  void plainly() const {
    at::Tensor h = x;
    for (size_t i = 0; i < blocks; ++i) {
      h = body(i, h);
    }
    h.square().sum().backward();
  }
};

at::Tensor planned_body(size_t, at::Tensor h) {
  return h.mm(sines({256, 256}) * 0.1).tanh().exp().sin();
}

/// Plans at the least, a middle and the most useful budget.
std::vector<MemoryPlan> plans_of(const std::function<void()>& step) {
  const auto most = plan(step, at::kCPU, {.budget = int64_t{1} << 40});
  const auto least = most.curve().front().peak_bytes;
  return {most.with_budget(least),
          most.with_budget((least + most.curve().back().peak_bytes) / 2),
          most};
}

void run_under(const MemoryPlan& plan, const std::function<void()>& step) {
  const PlanGuard use(plan);
  step();
  use.finish();
}

/// Every plan of the step gives plain gradients, buffers and random state.
void planned_law(const PlannedStep& step, const std::function<Tensors()>& state) {
  Tensors start;
  for (const auto& tensor : state()) {
    start.push_back(tensor.clone());
  }
  const auto plans = plans_of(step);
  const auto run = [&](const std::function<void()>& work) {
    const auto now = state();
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < now.size(); ++i) {
      at::Tensor changed = now[i];
      changed.copy_(start[i]);
    }
    at::Tensor x = step.x;
    x.mutable_grad().reset();
    torch::manual_seed(3);
    {
      const torch::AutoGradMode enabled(true);
      work();
    }
    Tensors seen{x.grad().clone(), at::detail::getDefaultCPUGenerator().get_state()};
    for (const auto& tensor : state()) {
      seen.push_back(tensor.clone());
    }
    return seen;
  };
  const auto expected = run([&] { step.plainly(); });
  for (size_t i = 0; i < plans.size(); ++i) {
    SCOPED_TRACE(i);
    expect_bitwise_equal(run([&] { run_under(plans[i], step); }), expected);
  }
}

TEST(LawPlans, ChangeNoBits) {
  planned_law({planned_body}, [] { return Tensors{}; });
}

TEST(LawPlans, ChangeNoBitsWithDropout) {
  planned_law(
      {[](size_t i, at::Tensor h) { return torch::dropout(planned_body(i, h), 0.3, true); }},
      [] { return Tensors{}; });
}

TEST(LawPlans, OfAStepWhoseFirstRegionIsOneBatchNorm) {
  torch::nn::BatchNorm1d norm(256);
  planned_law({[norm](size_t i, at::Tensor h) {
                auto module = norm;
                return i == 0 ? module(h) : planned_body(i, h);
              }},
              [norm] { return norm->buffers(); });
}

TEST(LawPlans, OfAStepThatIsOneBatchNorm) {
  torch::nn::BatchNorm1d norm(256);
  planned_law({.body =
                   [norm](size_t, at::Tensor h) {
                     auto module = norm;
                     return module(h);
                   },
               .blocks = 1},
              [norm] { return norm->buffers(); });
}

TEST(LawPlans, OfARegionThatWritesMoreThanItSaves) {
  const auto cache = torch::zeros({2048, 256});
  planned_law({[cache](size_t i, at::Tensor h) {
                at::Tensor written = cache;
                written.narrow(0, 64, 64).add_(h.detach());
                return planned_body(i, h) + cache.narrow(0, 64, 64).clone();
              }},
              [cache] { return Tensors{cache}; });
}

TEST(LawPlans, OfARegionThatWritesAndSavesNothing) {
  const auto cache = torch::zeros({2048, 256});
  planned_law({[cache](size_t i, at::Tensor h) {
                if (i == 1) {
                  at::Tensor written = cache;
                  written.add_(h.detach().sum());
                  return h + 1;
                }
                return planned_body(i, h);
              }},
              [cache] { return Tensors{cache}; });
}

TEST(LawPlans, OfARegionWithoutOperators) {
  planned_law({[](size_t i, at::Tensor h) { return i == 1 ? h : planned_body(i, h); }},
              [] { return Tensors{}; });
}

TEST(LawPlans, OfNestedRegions) {
  planned_law({[](size_t i, at::Tensor h) {
                return checkpoint(
                    {.name = "inner"},
                    [i](at::Tensor v) { return planned_body(i, v); },
                    planned_body(i, h));
              }},
              [] { return Tensors{}; });
}

/// A step that differs from the planned one is an error under every plan.
void differs(const PlannedStep& planned, const PlannedStep& other) {
  const auto plans = plans_of(planned);
  for (size_t i = 0; i < plans.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { run_under(plans[i], other); }), "[plan]"));
    run_under(plans[i], planned);
  }
}

TEST(LawPlans, RefuseMoreOperators) {
  differs({planned_body},
          {[](size_t i, at::Tensor h) { return planned_body(i, planned_body(i, h)).tan(); }});
}

TEST(LawPlans, RefuseOtherOperatorsInOneRegion) {
  differs({planned_body}, {[](size_t i, at::Tensor h) {
            return i == 1 ? h.sigmoid().log().cos() : planned_body(i, h);
          }});
}

TEST(LawPlans, RefuseALargerBatch) {
  differs({planned_body}, {.body = planned_body, .x = sine_leaf({256, 256})});
}

TEST(LawPlans, RefuseALargerBatchWithoutMatmuls) {
  const auto body = [](size_t, at::Tensor h) { return h.tanh().exp().sin(); };
  differs({body}, {.body = body, .x = sine_leaf({256, 256})});
}

TEST(LawPlans, RefuseAWiderDtype) {
  const auto body = [](size_t, at::Tensor h) { return h.tanh().exp().sin(); };
  differs({body}, {.body = body, .x = sine_leaf({64, 256}, 0, at::kDouble)});
}

TEST(LawPlans, RefuseMoreOrFewerRegions) {
  differs({planned_body}, {.body = planned_body, .blocks = 2});
  differs({planned_body}, {.body = planned_body, .blocks = 4});
}

TEST(LawPlans, LeaveTheNextStepAloneAfterARefusal) {
  const PlannedStep planned{planned_body};
  const PlannedStep longer{.body = planned_body, .blocks = 4};
  for (const auto& each : plans_of(planned)) {
    EXPECT_THROW(run_under(each, longer), c10::Error);
    at::Tensor x = planned.x;
    x.mutable_grad().reset();
    planned();
    const auto gradient = x.grad().clone();
    x.mutable_grad().reset();
    planned.plainly();
    EXPECT_TRUE(bitwise_equal(gradient, x.grad()));
  }
}

TEST(LawPlans, OptionsThatAPlanDecidesAboutAreRefused) {
  const auto x = sine_leaf({64, 256});
  const auto with = [&](const CheckpointOptions& options) {
    return [&x, options] {
      checkpoint(
          options, [](at::Tensor h) { return planned_body(0, h); }, x)
          .sum()
          .backward();
    };
  };
  const auto mine = plan(with({.name = "block"}), at::kCPU, {.budget = int64_t{1} << 40});
  for (const auto& options :
       std::vector<CheckpointOptions>{{.use_reentrant = true, .name = "block"},
                                      {.policy = policy::save_matmuls(), .name = "block"},
                                      {.offload_inputs = true, .name = "block"}}) {
    EXPECT_TRUE(
        contains(message_of<c10::Error>([&] { run_under(mine, with(options)); }), "[plan]"));
  }
}

}  // namespace
}  // namespace reprise::testing
