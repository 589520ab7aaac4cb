// Nothing accumulates over ten thousand steps: neither tensor bytes nor resident memory.
#include "support/bitwise.h"
#include "support/sanitizer.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>

namespace reprise::testing {
namespace {

// Sanitizers keep freed memory for a while.
constexpr bool kIsSanitized = REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN;

constexpr int kSteps = 10'000;
constexpr int kWarmUp = 1'000;
// A leak of 100 bytes a step would be 900 kB; the heap itself moves by less.
constexpr int64_t kAllowedResident = 700'000;

int64_t resident_bytes() {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void expect_no_growth(const std::function<void(int)>& step) {
  for (int i = 0; i < kWarmUp; ++i) {
    step(i);
  }
  const auto live = live_bytes(c10::kCPU);
  const auto resident = resident_bytes();
  for (int i = kWarmUp; i < kSteps; ++i) {
    step(i);
  }
  EXPECT_EQ(live_bytes(c10::kCPU), live);
  if (!kIsSanitized) {
    EXPECT_LT(resident_bytes() - resident, kAllowedResident);
  }
}

class TenThousandSteps : public ::testing::Test {
 protected:
  at::Tensor x_ = torch::ones({2, 2}).requires_grad_();
  at::Tensor w_ = torch::ones({2, 2}).requires_grad_();
  std::function<at::Tensor(at::Tensor)> fn_ = [w = w_](at::Tensor h) {
    return torch::dropout(torch::mm(h, w).tanh(), 0.5, true).exp();
  };
};

TEST_F(TenThousandSteps, OfFullCheckpointing) {
  expect_no_growth([this](int) { checkpoint(fn_, x_).sum().backward(); });
}

TEST_F(TenThousandSteps, OfPoliciesAndNesting) {
  const CheckpointOptions options{.policy = policy::save_matmuls(), .name = "inner"};
  expect_no_growth([&](int) {
    const auto outer = [fn = fn_, options](at::Tensor h) {
      return checkpoint(options, fn, h).sin();
    };
    checkpoint(outer, x_).sum().backward();
  });
}

TEST_F(TenThousandSteps, OfReentrantRegionsAndDroppedGraphs) {
  expect_no_growth([this](int i) {
    const auto y = checkpoint({.use_reentrant = i % 2 == 0}, fn_, x_);
    if (i % 3 != 0) {
      y.sum().backward();
    }
  });
}

TEST_F(TenThousandSteps, OfPartialGradientsGroupsAndErrors) {
  expect_no_growth([this](int i) {
    auto runs = std::make_shared<int>(0);
    const auto failing = [w = w_, runs, fails = i % 10 == 0](at::Tensor h) {
      if (++*runs > 1 && fails) {
        throw std::runtime_error("a failing step");
      }
      return std::pair(torch::mm(h, w).tanh(), h.exp());
    };
    const auto y = checkpoint(failing, x_);
    try {
      const GraphExecGroup group;
      torch::autograd::grad({y.first.sum()}, {w_}, {}, /*retain_graph=*/true);
      torch::autograd::grad({y.second.sum()}, {x_}, {}, /*retain_graph=*/true);
    } catch (const std::exception&) {
      EXPECT_EQ(i % 10, 0);
    }
  });
}

}  // namespace
}  // namespace reprise::testing
