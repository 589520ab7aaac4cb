// Bytes of one thread, whatever other threads allocate.
#include "memory/thread_bytes.h"

#include "support/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <thread>

namespace reprise::testing {
namespace {

// A tensor of 1 MiB, which the CPU counter counts exactly.
constexpr int64_t kSide = 512;
constexpr int64_t kTensor = kSide * kSide * static_cast<int64_t>(sizeof(float));

TEST(ThreadBytes, CountOnlyTheirThread) {
  const auto older = std::make_unique<at::Tensor>(torch::empty({kSide, kSide}));
  memory::ThreadBytes mine(c10::kCPU);
  at::Tensor theirs;
  std::thread([&] { theirs = torch::empty({4 * kSide, kSide}); }).join();
  EXPECT_EQ(mine.live(), 0);
  EXPECT_EQ(mine.peak(), 0);
  at::Tensor ours = torch::empty({2 * kSide, kSide});
  EXPECT_EQ(mine.live(), 2 * kTensor);
  theirs = at::Tensor();  // was never counted
  EXPECT_EQ(mine.live(), 2 * kTensor);
  std::thread([&] { ours = at::Tensor(); }).join();  // ours, whoever frees it
  EXPECT_EQ(mine.live(), 0);
  EXPECT_EQ(mine.peak(), 2 * kTensor);
  *older = at::Tensor();  // makes room
  EXPECT_EQ(mine.live(), -kTensor);
  mine.reset_peak();
  EXPECT_EQ(mine.peak(), -kTensor);
}

TEST(ThreadBytes, CountOnlyTheirThreadOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  const auto tensor = [](int64_t count) {
    return torch::empty({count * kSide, kSide}, c10::Device(c10::kCUDA));
  };
  auto older = tensor(1);
  memory::ThreadBytes mine(c10::kCUDA);
  at::Tensor theirs;
  std::thread([&] { theirs = tensor(4); }).join();
  EXPECT_EQ(mine.live(), 0);
  at::Tensor ours = tensor(2);
  EXPECT_EQ(mine.live(), 2 * kTensor);
  {
    memory::ThreadBytes inner(c10::kCUDA);
    const auto both = tensor(1);
    EXPECT_EQ(inner.live(), kTensor);
  }
  ours = older = at::Tensor();
  EXPECT_EQ(mine.live(), -kTensor);
  EXPECT_EQ(mine.peak(), 3 * kTensor);
}

TEST(ThreadBytes, MayBeNested) {
  memory::ThreadBytes outer(c10::kCPU);
  at::Tensor before = torch::empty({kSide, kSide}), inside;
  {
    memory::ThreadBytes inner(c10::kCPU);
    inside = torch::empty({kSide, kSide});
    before = at::Tensor();
    EXPECT_EQ(inner.live(), 0);  // the older one made room
    EXPECT_EQ(inner.peak(), kTensor);
    EXPECT_EQ(outer.live(), kTensor);
    EXPECT_EQ(outer.peak(), 2 * kTensor);
  }
  inside = at::Tensor();
  EXPECT_EQ(outer.live(), 0);
}

}  // namespace
}  // namespace reprise::testing
