// A printed program compiles and computes what the tester's own run of it computed.
#include "fuzz/programs/print.h"

#include "fuzz/programs/generate.h"
#include "fuzz/programs/operators.h"
#include "fuzz/programs/outcome.h"
#include "fuzz/programs/printed_programs.h"
#include "fuzz/programs/run.h"
#include "fuzz/programs/text.h"
#include "support/bitwise.h"

#include <gtest/gtest.h>

namespace reprise::fuzz {
namespace {

using testing::bitwise_equal;

std::map<std::string, at::Tensor> named(const Program& program, bool with_regions) {
  const auto seen = run(program, {.with_regions = with_regions});
  std::map<std::string, at::Tensor> result;
  for (size_t i = 0; i < seen.size(); ++i) {
    result[observed_name(program, i)] = seen[i];
  }
  return result;
}

void expect_same(const std::map<std::string, at::Tensor>& printed,
                 std::map<std::string, at::Tensor> ran) {
  for (const auto& [name, value] : printed) {
    ASSERT_TRUE(ran.contains(name)) << name;
    EXPECT_TRUE(bitwise_equal(value, ran[name])) << name;
  }
}

TEST(PrintedProgram, ComputesWhatTheTesterRan) {
  size_t compared = 0;
  for (const auto& printed : printed_programs()) {
    SCOPED_TRACE(printed.seed);
    const auto program = generate(printed.seed);
    const auto verdict = judge(program).verdict;
    if (verdict == Verdict::Invalid) {
      continue;
    }
    expect_same(printed.run(false), named(program, false));
    if (verdict == Verdict::Equal) {
      expect_same(printed.run(true), named(program, true));
      ++compared;
    }
  }
  EXPECT_GT(compared, printed_programs().size() * 3 / 4);
}

TEST(PrintedProgram, NamesItsSeedAndIsAFileOfItsOwn) {
  const auto text = program_text(generate(5), "A comment");
  EXPECT_TRUE(text.starts_with("// Seed 5. A comment\n#include <reprise/"));
  EXPECT_NE(text.find("reprise::checkpoint(how, fn, arguments...)"), std::string::npos);
  EXPECT_NE(text.find("int main() {"), std::string::npos);
}

TEST(PrintedProgram, ShowsRegistersAndNumbersInARow) {
  Instruction instruction;
  instruction.op = operator_named("addcmul");
  instruction.inputs = {3, 14, 15};
  instruction.number = 0.25;
  const auto& row = operators()[static_cast<size_t>(instruction.op)];
  EXPECT_EQ(expression(instruction, row), "torch::addcmul(r3, r14, r15, 0.25)");
}

TEST(PrintedProgram, BreaksLongLinesOfHelpers) {
  EXPECT_EQ(broken_up("void f() { for (int i = 0; i < 2; ++i) { g(i); } }"),
            "void f() {\n  for (int i = 0; i < 2; ++i) {\n    g(i);\n  }\n}");
}

}  // namespace
}  // namespace reprise::fuzz
