// The guard against CPUs that announce AMX and fault on it, in a process that has not used oneDNN.
#include "model/child_process.h"
#include "support/tensors.h"

#include <reprise/model/amx_guard.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace reprise {
namespace {

TEST(AmxGuard, LetsBFloat16ProductsRunOnEveryCpu) {
  // A death test's child starts from here: nothing of oneDNN is initialised in it.
  EXPECT_EXIT(
      {
        unsetenv("ONEDNN_MAX_CPU_ISA");
        guard_against_faulting_amx();
        const auto a = torch::ones({64, 64}, at::kBFloat16);
        const bool is_right = torch::matmul(a, a).eq(64).all().item<bool>();
        std::exit(is_right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "");
}

TEST(AmxGuard, SeesAnInstructionThatFaults) {
  EXPECT_TRUE(model::dies_in_child([] { std::raise(SIGILL); }));
  EXPECT_FALSE(model::dies_in_child([] {}));
}

TEST(AmxGuard, LeavesASettingOfTheUsersAlone) {
  EXPECT_EXIT(
      {
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        const bool has_changed = guard_against_faulting_amx();
        std::exit(!has_changed && std::string(getenv("ONEDNN_MAX_CPU_ISA")) == "AVX2" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "");
}

}  // namespace
}  // namespace reprise
