// Large CPU blocks, kept for reuse: Note [Freed blocks are reused] in src/memory/large_blocks.h.
#include "memory/mebibytes.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/memory.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

namespace reprise::testing {
namespace {

/// Pages of this process that are in memory.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(LargeBlocks, AFreedBlockServesTheNextRequestOfItsSize) {
  const void* first = mebibytes(7).const_data_ptr();
  EXPECT_EQ(mebibytes(7).const_data_ptr(), first);
}

TEST(LargeBlocks, ALargeBlockServesSmallOnesAndIsWholeAgainAfterThem) {
  const void* first = mebibytes(400).const_data_ptr();
  {
    const auto a = mebibytes(150);
    const auto b = mebibytes(250);
    EXPECT_EQ(a.const_data_ptr(), first);
    EXPECT_EQ(b.const_data_ptr(), static_cast<const char*>(first) + 150 * kMiB);
  }
  EXPECT_EQ(mebibytes(400).const_data_ptr(), first);
}

TEST(LargeBlocks, TensorsThatLiveTogetherDoNotShareMemory) {
  std::vector<at::Tensor> tensors;
  for (int round = 0; round < 3; ++round) {
    tensors.clear();
    for (int64_t i = 0; i < 12; ++i) {
      tensors.push_back(mebibytes(2 + i % 3).fill_(i));
    }
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_TRUE(tensors[static_cast<size_t>(i)].eq(i).all().item<bool>());
    }
  }
}

TEST(LargeBlocks, WhatIsKeptNeverRaisesTheProcessAboveItsOwnPeak) {
  mebibytes(500).fill_(1);
  const int64_t before = resident_bytes();
  // At most 500 MiB are alive at once, and pieces of them stay in between, so that large requests
  // need new mappings.
  for (int64_t size = 480; size > 100; size -= 70) {
    const auto large = mebibytes(size).fill_(1);
    const auto small = mebibytes(9).fill_(1);
  }
  EXPECT_LE(resident_bytes(), before + 12 * kMiB);
}

TEST(LargeBlocks, AreCountedByWhatWasAskedFor) {
  const auto before = live_bytes(c10::kCPU);
  mebibytes(32);
  const auto a = mebibytes(31);  // may be the block of 32
  EXPECT_EQ(live_bytes(c10::kCPU) - before, 31 * kMiB);
}

TEST(LargeBlocks, MayBeFreedByAnotherThread) {
  const auto before = live_bytes(c10::kCPU);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([made = mebibytes(3)]() mutable {
      for (int round = 0; round < 50; ++round) {
        made = mebibytes(1 + round % 4);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  threads.clear();
  EXPECT_EQ(live_bytes(c10::kCPU), before);
}

TEST(LargeBlocks, WithoutMemoryTheErrorIsLibTorchs) {
  try {
    torch::empty({int64_t{1} << 60}, at::kByte);
    FAIL() << "2^60 bytes were allocated";
  } catch (const c10::Error& error) {
    EXPECT_TRUE(contains(error.what_without_backtrace(), "can't allocate memory")) << error.what();
  }
}

}  // namespace
}  // namespace reprise::testing
