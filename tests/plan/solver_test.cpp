// The planner's solver against brute force, and the promises that hold at any size.
#include "plan/solve/chain_solver.h"

#include "plan/brute_force.h"
#include "plan/random_chain.h"

#include <gtest/gtest.h>

#include <ctime>
#include <iostream>
#include <stdexcept>

namespace reprise::planning {
namespace {

using testing::BruteForce;
using testing::RandomChain;
using testing::transformer;
using testing::Tried;

struct Case {
  ChainCosts costs;
  SolverOptions options;
};

/// Small enough for brute force, with every feature on in most.
Case random_case(uint32_t seed) {
  RandomChain random(seed);
  constexpr size_t kSizes[][2] = {{1, 6}, {2, 3}, {3, 2}, {4, 1}, {5, 1}};
  const auto& size = kSizes[seed % 5];
  Case result;
  result.costs = random.make(size[0], size[1]);
  auto& options = result.options;
  options.limits = SolverLimits::exact();
  options.allow_plain = random.number(0, 5) > 0;
  options.allow_keep = random.number(0, 5) > 0;
  options.allow_offload = random.number(0, 4) > 0;
  options.allow_compress = random.number(0, 4) > 0;
  options.allow_lossy = random.coin();
  options.longest_segment = static_cast<size_t>(random.number(1, 4));
  if (random.coin()) {
    options.host_limit = random.number(0, 40);
  }
  for (size_t i = 0; i < size[0] && seed % 3 == 0; ++i) {
    result.costs.joinable.push_back(static_cast<size_t>(random.number(0, 3)));
  }
  return result;
}

const Tried* best_within(const std::vector<Tried>& curve, int64_t budget) {
  const Tried* best = nullptr;
  for (const auto& plan : curve) {
    best = plan.peak <= budget ? &plan : best;
  }
  return best;
}

void expect_consistent(const ChainPlan& plan, const CurvePoint& point) {
  EXPECT_EQ(plan.prediction.extra_ns, point.extra_ns);
  EXPECT_EQ(plan.prediction.host_bytes, point.host_bytes);
  EXPECT_LE(plan.prediction.peak_bytes, point.peak_bytes);
  EXPECT_EQ(plan.prediction.moments[plan.prediction.tightest].total(), plan.prediction.peak_bytes);
}

TEST(ChainSolver, FindsWhatBruteForceFinds) {
  size_t tried = 0, limited = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const auto [costs, options] = random_case(seed);
    const BruteForce all(costs, options);
    tried += all.tried();
    limited += options.host_limit ? 1 : 0;
    const auto expected = all.curve(options.host_limit);
    const ChainSolver solver(costs, options);
    ASSERT_EQ(solver.curve().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& point = solver.curve()[i];
      ASSERT_EQ(point.peak_bytes, expected[i].peak);
      ASSERT_EQ(point.extra_ns, expected[i].ns);
      ASSERT_EQ(point.host_bytes, expected[i].host);
      const auto plan = solver.plan_for(point.peak_bytes);
      ASSERT_TRUE(plan);
      expect_consistent(*plan, point);
      EXPECT_EQ(plan->prediction.peak_bytes, point.peak_bytes);
      EXPECT_EQ(plan->prediction.held_bytes, expected[i].held);
    }
    EXPECT_EQ(solver.slack().bytes, 0);
    EXPECT_EQ(solver.slack().ns, 0);
  }
  std::cout << tried << " plans tried, " << limited << " cases with a host limit\n";
}

TEST(ChainSolver, LosesNoMoreThanItSaysWhenItThins) {
  int64_t worse = 0, budgets = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    auto [costs, options] = random_case(seed);
    options.limits = {6, 4, 8, 8, 2, 2};
    const BruteForce all(costs, options);
    const auto best = all.curve(options.host_limit);
    const ChainSolver solver(costs, options);
    const auto slack = solver.slack();
    if (!options.host_limit) {
      EXPECT_EQ(solver.least_bytes(), best.front().peak) << "the least budget is never thinned";
    }
    std::optional<int64_t> reduced;
    if (options.host_limit) {
      reduced = *options.host_limit - slack.host_bytes;
    }
    const auto reachable = all.curve(reduced);
    for (int64_t budget = best.front().peak; budget <= best.back().peak + 5; ++budget) {
      const auto plan = solver.plan_for(budget);
      if (const auto* bound = best_within(reachable, budget - slack.bytes)) {
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->prediction.extra_ns, bound->ns + slack.ns);
      }
      if (plan) {
        EXPECT_LE(plan->prediction.peak_bytes, budget);
        EXPECT_GE(plan->prediction.extra_ns, best_within(best, budget)->ns);
        EXPECT_LE(plan->prediction.host_bytes, options.host_limit.value_or(1 << 30));
        worse += plan->prediction.extra_ns > best_within(best, budget)->ns ? 1 : 0;
        ++budgets;
      }
    }
  }
  EXPECT_GT(worse, 0) << "nothing was thinned: the test shows nothing";
  std::cout << worse << " of " << budgets << " budgets lost time\n";
}

TEST(ChainSolver, MoreBytesNeverPredictMoreTime) {
  RandomChain random(7);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    auto options = SolverOptions();
    if (seed % 2 == 1) {
      options.host_limit = int64_t{4} << 30;
    }
    const ChainSolver solver(transformer(8, seed), options);
    std::vector<int64_t> budgets(200);
    for (auto& budget : budgets) {
      budget = random.number(solver.least_bytes() - 1000, solver.curve().back().peak_bytes + 1000);
    }
    std::sort(budgets.begin(), budgets.end());
    std::optional<ChainPlan> smaller;
    for (int64_t budget : budgets) {
      const auto plan = solver.plan_for(budget);
      ASSERT_EQ(plan.has_value(), budget >= solver.least_bytes());
      if (!plan) {
        continue;
      }
      EXPECT_LE(plan->prediction.peak_bytes, budget);
      EXPECT_EQ(plan->spare_bytes, budget - plan->prediction.peak_bytes);
      if (smaller) {
        EXPECT_LE(plan->prediction.extra_ns, smaller->prediction.extra_ns);
      }
      smaller = plan;
    }
  }
}

TEST(ChainSolver, GivesEqualPlansForEqualCosts) {
  const auto costs = transformer(10, 3);
  const ChainSolver first(costs, {}), second(costs, {});
  ASSERT_EQ(first.curve().size(), second.curve().size());
  for (const auto& point : first.curve()) {
    const auto a = first.plan_for(point.peak_bytes), b = second.plan_for(point.peak_bytes);
    ASSERT_EQ(a->units.size(), b->units.size());
    for (size_t i = 0; i < a->units.size(); ++i) {
      EXPECT_EQ(a->units[i].choices, b->units[i].choices);
      EXPECT_EQ(a->units[i].blocks, b->units[i].blocks);
      EXPECT_EQ(a->units[i].inside, b->units[i].inside);
      EXPECT_EQ(a->units[i].offloads_input, b->units[i].offloads_input);
    }
  }
}

TEST(ChainSolver, MakesNoRegionsWhereEverythingFits) {
  const ChainSolver solver(transformer(9, 5), {});
  const auto plan = solver.plan_for(int64_t{1} << 50);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->prediction.extra_ns, 0);
  EXPECT_EQ(plan->prediction.host_bytes, 0);
  EXPECT_FALSE(plan->next_faster);
  ASSERT_EQ(plan->units.size(), 9U);
  for (const auto& unit : plan->units) {
    EXPECT_FALSE(unit.is_region);
  }
}

TEST(ChainSolver, NamesTheLeastBudgetThatWorks) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto [costs, options] = random_case(seed);
    const ChainSolver solver(costs, options);
    const auto expected = BruteForce(costs, options).curve(options.host_limit).front();
    EXPECT_EQ(solver.least_bytes(), expected.peak);
    EXPECT_TRUE(solver.plan_for(solver.least_bytes()));
    EXPECT_FALSE(solver.plan_for(solver.least_bytes() - 1));
  }
}

/// Two blocks of one operator each, small enough to work out by hand.
TEST(ChainSolver, SaysWhichMomentBinds) {
  ChainCosts costs;
  BlockCosts block;
  OpCosts op;
  op.name = "mm";
  op.result_bytes = 10;
  op.forward_ns = 7;
  op.needed = true;
  block.ops = {op};
  block.replay_end = 1;
  block.forward_ns = 7;
  block.input_bytes = 2;
  block.plain_bytes = 12;
  block.plain_forward_bytes = block.region_forward_bytes = 12;
  block.plain_backward_bytes = block.region_backward_bytes = 15;
  block.gradient_bytes = 1;
  costs.kinds = {block};
  costs.blocks = {0, 0};
  costs.head.peak_bytes = 9;
  costs.base_bytes = 100;
  const ChainSolver solver(costs, {});
  EXPECT_EQ(solver.least_bytes(), 118);  // both regions: 100 + 2 held + 15 + 1 of gradients
  const auto plan = solver.plan_for(125);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->prediction.extra_ns, 7);
  EXPECT_TRUE(plan->units[0].is_region);
  EXPECT_FALSE(plan->units[1].is_region);
  std::vector<int64_t> totals;
  for (const auto& moment : plan->prediction.moments) {
    totals.push_back(moment.total());
  }
  EXPECT_EQ(totals, (std::vector<int64_t>{112, 114, 123, 118, 117}));
  EXPECT_EQ(plan->prediction.moments[plan->prediction.tightest].phase, Phase::Head);
  EXPECT_EQ(plan->spare_bytes, 2);
  ASSERT_TRUE(plan->next_faster);
  EXPECT_EQ(plan->next_faster->peak_bytes, 133);  // both plain: the head on top of 24
  EXPECT_EQ(plan->next_faster->extra_ns, 0);
}

TEST(ChainSolver, RefusesCostsThatContradictEachOther) {
  auto costs = transformer(2, 1);
  costs.link = {};
  EXPECT_THROW(ChainSolver(costs, {}), std::invalid_argument);
  costs = transformer(2, 1);
  costs.kinds[0].replay_end = 1;
  EXPECT_THROW(ChainSolver(costs, {}), std::invalid_argument);
  costs = transformer(2, 1);
  costs.blocks.push_back(2);
  EXPECT_THROW(ChainSolver(costs, {}), std::invalid_argument);
  EXPECT_THROW(ChainSolver({}, {}), std::invalid_argument);
}

TEST(ChainSolver, LosesLittleByTheLengthsThatItDoesNotTry) {
  SolverOptions options;
  options.allow_offload = options.allow_compress = options.allow_keep = false;
  options.longest_segment = 64;
  auto costs = transformer(64, 9);
  costs.head.gradient_bytes = 0;
  for (auto& kind : costs.kinds) {
    kind.gradient_bytes = 0;  // where gradients are the peak, nothing else matters
  }
  const ChainSolver thinned(costs, options);
  options.limits.segments = 64;
  const ChainSolver all(costs, options);
  EXPECT_LE(all.least_bytes(), thinned.least_bytes());
  EXPECT_LE(thinned.least_bytes(), all.least_bytes() + all.least_bytes() / 100);
  options.longest_segment = 1;
  EXPECT_LT(thinned.least_bytes(), ChainSolver(costs, options).least_bytes());
}

TEST(ChainSolver, SolvesALongChain) {
  for (const bool has_host_limit : {false, true}) {
    auto options = SolverOptions();
    if (has_host_limit) {
      options.host_limit = int64_t{16} << 30;
    }
    const auto costs = transformer(128, 11);
    const auto start = std::clock();
    const ChainSolver solver(costs, options);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::cout << "128 blocks" << (has_host_limit ? ", host limit" : "") << ": " << seconds
              << " s of processor time, " << solver.curve().size() << " points, slack "
              << (solver.slack().bytes >> 20) << " MiB of "
              << (solver.curve().back().peak_bytes >> 20) << "\n";
    for (const auto& point : solver.curve()) {
      const auto plan = solver.plan_for(point.peak_bytes);
      ASSERT_TRUE(plan);
      expect_consistent(*plan, point);
      ASSERT_EQ(plan->prediction.moments.size(), 2 * 128 + 1);
    }
  }
}

}  // namespace
}  // namespace reprise::planning
