// The names that --optim takes, and what is said about those of other programs.
#include "support/tensors.h"

#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise::testing {
namespace {

TEST(OptimizerNames, ReadBackAsTheirKind) {
  for (const std::string& name : optimizer_names()) {
    const OptimizerKind kind = parse_optimizer(name);
    EXPECT_EQ(parse_optimizer(name_of(kind)), kind) << name;
    EXPECT_EQ(optimizer_instead_of(name), "") << name;
  }
  EXPECT_EQ(name_of(OptimizerKind::AdamW8bit), "adamw_8bit");
}

TEST(OptimizerNames, IncludeThoseOfTransformers) {
  EXPECT_EQ(parse_optimizer("adamw_torch"), OptimizerKind::AdamW);
  EXPECT_EQ(parse_optimizer("adamw_torch_fused"), OptimizerKind::AdamW);
  EXPECT_EQ(parse_optimizer("adamw_bnb_8bit"), OptimizerKind::AdamW8bit);
  EXPECT_EQ(parse_optimizer("lion_32bit"), OptimizerKind::Lion);
}

TEST(OptimizerNames, SayWhatToUseInsteadOfOthers) {
  expect_error([] { parse_optimizer("paged_adamw_8bit"); },
               "the optimizer paged_adamw_8bit: state is not paged here: it stays on its device, "
               "or with --parallel fsdp --fsdp_cpu_offload in CPU memory. Use adamw_8bit");
  expect_error([] { parse_optimizer("lion_8bit"); }, "Use lion");
  expect_error([] { parse_optimizer("adam"); },
               "expected one of the optimizers adamw, adamw_torch, adamw_torch_fused, adamw_8bit, "
               "adamw_bnb_8bit, adamw_bf16, lion, lion_32bit, adafactor, muon, rmsprop, sgd, got "
               "\"adam\"");
}

TEST(OptimizerNames, TellWhichPartsOfParametersTheyUpdate) {
  EXPECT_EQ(block_elements(OptimizerKind::AdamW8bit), 256);
  EXPECT_EQ(block_elements(OptimizerKind::AdamW), 1);
  EXPECT_TRUE(updates_whole_parameters(OptimizerKind::Muon));
  EXPECT_TRUE(updates_whole_parameters(OptimizerKind::Adafactor));
  EXPECT_FALSE(updates_whole_parameters(OptimizerKind::AdamW8bit));
}

}  // namespace
}  // namespace reprise::testing
