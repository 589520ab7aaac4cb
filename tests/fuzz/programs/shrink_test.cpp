// The tester can fail: a fault put into regions is found, and shrunk to the instruction at fault.
#include "fuzz/programs/shrink.h"

#include "fuzz/programs/generate.h"
#include "fuzz/programs/operators.h"
#include "fuzz/programs/outcome.h"
#include "fuzz/programs/print.h"
#include "fuzz/programs/types.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprise::fuzz {
namespace {

/// Differs because of the fault, and of nothing else.
bool fails_by(const Program& program, int fault) {
  return judge(program, fault).verdict == Verdict::Different &&
         judge(program).verdict == Verdict::Equal;
}

/// The first program, from `seed` on, that fails.
Program first_failing(uint64_t seed, int fault) {
  for (;; ++seed) {
    // A backward call inside a region would be a second way to see the fault.
    auto program = generate(seed, {.without = {"inner_backward", "inner_grad", "sequential"}});
    if (fails_by(program, fault)) {
      return program;
    }
  }
}

std::vector<int> rows_in_regions(const Program& program) {
  std::vector<int> rows;
  for_each_instruction(program.body, [&rows](const Instruction& region) {
    if (region.kind == Kind::Region) {
      for_each_instruction(region.blocks[0].body,
                           [&rows](const Instruction& inner) { rows.push_back(inner.op); });
    }
  });
  return rows;
}

class ShrunkProgram : public ::testing::TestWithParam<const char*> {};

TEST_P(ShrunkProgram, IsTheInstructionAtFault) {
  const int fault = operator_named(GetParam());
  const auto fails = [fault](const Program& program) { return fails_by(program, fault); };
  uint64_t seed = 100;
  for (int i = 0; i < 2; ++i) {
    const auto program = first_failing(seed, fault);
    seed = program.seed + 1;
    const auto smallest = shrink(program, fails);
    SCOPED_TRACE(function_text(smallest));
    EXPECT_TRUE(fails(smallest));
    // The region, the instruction, what makes a scalar of it, and backward. No single edit of some
    // programs leads there, so one more instruction may be left.
    const auto rows = rows_in_regions(smallest);
    EXPECT_EQ(std::count(rows.begin(), rows.end(), fault), 1);
    EXPECT_LE(rows.size(), 2);
    EXPECT_LE(instruction_count(smallest), 5);
  }
}

INSTANTIATE_TEST_SUITE_P(OfAFault,
                         ShrunkProgram,
                         ::testing::Values("gelu", "mm", "tanh", "add", "layer_norm"));

TEST(ShrinkingAProgram, KeepsItsTypesAndStopsAfterSoManyRuns) {
  size_t runs = 0;
  const auto smallest = shrink(
      generate(3),
      [&runs](const Program& candidate) {
        ++runs;
        EXPECT_TRUE(is_well_typed(candidate));
        return true;
      },
      /*most_runs=*/20);
  EXPECT_EQ(runs, 20);
  EXPECT_TRUE(is_well_typed(smallest));
}

TEST(ShrinkingAProgram, LeavesNothingIfEverythingFails) {
  const auto smallest = shrink(generate(3), [](const Program&) { return true; });
  EXPECT_EQ(instruction_count(smallest), 0);
}

}  // namespace
}  // namespace reprise::fuzz
