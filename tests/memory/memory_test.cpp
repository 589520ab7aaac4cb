// Live and peak bytes per device.
#include "memory/allocation_watch.h"
#include "memory/cpu_counter.h"
#include "memory/device_memory.h"
#include "memory/mebibytes.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/tensors.h"

#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// What live_bytes says before main() has called track_cpu_memory().
const std::string error_before_tracking = [] {
  try {
    live_bytes(c10::kCPU);
  } catch (const c10::Error& error) {
    return std::string(error.what_without_backtrace());
  }
  return std::string();
}();

/// Allocators round up: malloc by little, CUDA's by a rest of up to 1 MiB of a cached block.
void expect_about(int64_t bytes, int64_t mebi, c10::Device device = c10::kCPU) {
  EXPECT_GE(bytes, mebi * kMiB);
  EXPECT_LE(bytes, mebi * kMiB + (device.is_cpu() ? kMiB / 8 : kMiB));
}

TEST(LiveBytes, IsAnErrorBeforeAnybodyCounts) {
  EXPECT_TRUE(
      contains(error_before_tracking, "call reprise::track_cpu_memory() at the start of main()"));
}

TEST(LiveBytes, FollowTensors) {
  const auto before = live_bytes(c10::kCPU);
  auto a = mebibytes(3);
  expect_about(live_bytes(c10::kCPU) - before, 3);
  auto view = a.narrow(0, 0, 5);
  auto b = mebibytes(1);
  expect_about(live_bytes(c10::kCPU) - before, 4);
  a.reset();
  expect_about(live_bytes(c10::kCPU) - before, 4);  // the view holds it
  view.reset();
  expect_about(live_bytes(c10::kCPU) - before, 1);
  b.resize_({0});
  b.reset();
  EXPECT_EQ(live_bytes(c10::kCPU), before);
}

TEST(LiveBytes, EmptyTensorsCountNothing) {
  const auto before = live_bytes(c10::kCPU);
  const auto empty = torch::empty({0});
  EXPECT_EQ(live_bytes(c10::kCPU), before);
}

TEST(LiveBytes, TrackingAgainChangesNothing) {
  const auto before = live_bytes(c10::kCPU);
  const auto tensor = mebibytes(1);
  track_cpu_memory();
  expect_about(live_bytes(c10::kCPU) - before, 1);
}

TEST(LiveBytes, TensorsFreedOnAnotherThreadAreCounted) {
  const auto before = live_bytes(c10::kCPU);
  auto tensor = std::make_unique<at::Tensor>(mebibytes(1));
  std::thread([owned = std::move(tensor)]() mutable { owned.reset(); }).join();
  EXPECT_EQ(live_bytes(c10::kCPU), before);
}

TEST(LiveBytes, ManyThreadsAtOnceLoseNothing) {
  const auto before = live_bytes(c10::kCPU);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int64_t j = 1; j < 2000; ++j) {
        torch::empty({j * 7});
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(live_bytes(c10::kCPU), before);
}

TEST(LiveBytes, ADeviceThatDoesNotCountIsRefusedByName) {
  const auto message = message_of<c10::Error>([] { live_bytes(c10::Device(c10::kXPU, 0)); });
  EXPECT_TRUE(contains(message, "[reprise] no byte counts for xpu:0"));
  EXPECT_TRUE(
      contains(message_of<c10::Error>([] { peak_bytes(c10::kMeta); }), "no byte counts for meta"));
  EXPECT_THROW(reset_peak_bytes(c10::kMeta), c10::Error);
  EXPECT_THROW(PeakTracker(c10::Device(c10::kMeta)), c10::Error);
}

TEST(LiveBytes, WithoutAGpuCudaIsRefused) {
  if (has_cuda()) {
    GTEST_SKIP() << "there is a GPU";
  }
  EXPECT_TRUE(
      contains(message_of<c10::Error>([] { live_bytes(c10::kCUDA); }), "no byte counts for cuda"));
}

TEST(PeakBytes, StayWhenTensorsGoAndFallWhenReset) {
  reset_peak_bytes(c10::kCPU);
  const auto before = live_bytes(c10::kCPU);
  EXPECT_EQ(peak_bytes(c10::kCPU), before);
  mebibytes(2);
  mebibytes(5);
  const auto held = mebibytes(1);
  expect_about(peak_bytes(c10::kCPU) - before, 5);
  reset_peak_bytes(c10::kCPU);
  expect_about(peak_bytes(c10::kCPU) - before, 1);
}

/// The same on every device.
void expect_trackers_nest(c10::Device device) {
  const auto before = mebibytes(1, device);
  const PeakTracker outer(device);
  EXPECT_EQ(outer.start(), live_bytes(device));
  EXPECT_EQ(outer.extra(), 0);
  mebibytes(6, device);
  const auto held = mebibytes(2, device);
  {
    const PeakTracker inner(device);
    expect_about(inner.start() - outer.start(), 2, device);
    EXPECT_EQ(inner.extra(), 0);
    mebibytes(3, device);
    expect_about(inner.extra(), 3, device);
    expect_about(outer.extra(), 6, device);
  }
  expect_about(outer.extra(), 6, device);  // from before the inner one
  {
    const PeakTracker inner(device);
    mebibytes(8, device);
    const PeakTracker innermost(device);
    mebibytes(1, device);
    expect_about(innermost.extra(), 1, device);
    expect_about(inner.extra(), 8, device);
  }
  expect_about(outer.extra(), 10, device);  // with the inner one's
  mebibytes(1, device);
  expect_about(outer.extra(), 10, device);
}

TEST(PeakTrackers, Nest) {
  expect_trackers_nest(c10::kCPU);
}

TEST(PeakTrackers, LeaveThePeakOfTheProcessAsItWouldBeWithoutThem) {
  reset_peak_bytes(c10::kCPU);
  const auto before = live_bytes(c10::kCPU);
  mebibytes(4);
  {
    const PeakTracker tracker(c10::kCPU);
    mebibytes(1);
  }
  expect_about(peak_bytes(c10::kCPU) - before, 4);
}

TEST(CudaBytes, FollowTensors) {
  REPRISE_REQUIRE_CUDA();
  const c10::Device device(c10::kCUDA, 0);
  const auto warm_up = mebibytes(1, device);
  const auto before = live_bytes(device);
  EXPECT_EQ(live_bytes(c10::kCUDA), before);  // without an index: the current device
  auto tensor = mebibytes(3, device);
  expect_about(live_bytes(device) - before, 3, device);
  tensor.reset();
  EXPECT_EQ(live_bytes(device), before);
  reset_peak_bytes(device);
  mebibytes(5, device);
  expect_about(peak_bytes(device) - before, 5, device);
}

TEST(CudaBytes, TrackersNest) {
  REPRISE_REQUIRE_CUDA();
  mebibytes(1, c10::Device(c10::kCUDA, 0));
  expect_trackers_nest(c10::Device(c10::kCUDA, 0));
}

TEST(AllocationWatch, RefusesWhatWouldBeTooMuch) {
  for (const auto device : devices()) {
    const auto there = mebibytes(8, device);  // does not count
    memory::AllocationWatch watch(device, 5 * kMiB);
    auto a = mebibytes(3, device);
    expect_about(watch.most(), 3, device);
    a.reset();
    const auto b = mebibytes(4, device);
    expect_about(watch.most(), 4, device);
    // What becomes something else makes room.
    watch.raise_floor(4 * kMiB);
    EXPECT_NO_THROW(mebibytes(4, device));
    EXPECT_THROW(mebibytes(7, device), c10::OutOfMemoryError);
    EXPECT_LE(watch.most(), 5 * kMiB);
  }
}

TEST(AllocationWatch, IsInForceInBackward) {
  for (const auto device : devices()) {
    const auto weight = mebibytes(4, device).view(at::kFloat).zero_().requires_grad_();
    const auto loss = (weight * weight).sum();
    memory::AllocationWatch watch(device, kMiB);
    EXPECT_THROW(loss.backward(), c10::OutOfMemoryError);
  }
}

TEST(AllocationWatch, LetsEverythingPassAfterwards) {
  for (const auto device : devices()) {
    const auto first = mebibytes(1, device);
    { const memory::AllocationWatch watch(device, 0); }
    EXPECT_NO_THROW(mebibytes(2, device));
  }
}

TEST(UncountedWorkspace, IsNeitherCountedNorRefused) {
  const auto counted = mebibytes(1);
  const auto before = live_bytes(c10::kCPU);
  const PeakTracker tracker(c10::kCPU);
  const memory::AllocationWatch watch(c10::kCPU, 0);
  {
    const memory::UncountedWorkspace uncounted;
    EXPECT_NO_THROW(mebibytes(3));
  }
  EXPECT_EQ(live_bytes(c10::kCPU), before);
  EXPECT_EQ(tracker.extra(), 0);
  EXPECT_THROW(mebibytes(3), c10::OutOfMemoryError);
}

TEST(DeviceMemory, HasRoomForWhatIsLeft) {
  for (const auto device : devices()) {
    const auto first = mebibytes(1, device);
    const auto memory = memory::device_memory(device);
    EXPECT_GT(memory.left, 0);
    EXPECT_LE(memory.left, memory.total);
  }
}

}  // namespace
}  // namespace reprise::testing
