// The weights are never in memory twice: copying a file into tensors adds no more to the process's
// peak than the piece that is being copied. One test a process, as the peak never falls.
#include "support/sanitizer.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace reprise::testing {
namespace {

constexpr int64_t kTensors = 2;
constexpr int64_t kTensorBytes = int64_t{48} << 20;
constexpr int64_t kAllowedGrowth = int64_t{14} << 20;  // a piece of 8 MiB, and what the heap moves

/// "VmHWM" or "VmRSS" of this process, in bytes.
int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) {
      return std::stoll(line.substr(field.size() + 1)) * 1024;
    }
  }
  return -1;
}

TEST(SafetensorsMemory, CopyingAddsNothingToThePeak) {
  if (REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN) {
    GTEST_SKIP() << "a sanitizer's shadow memory grows with what is touched";
  }
  const TemporaryFolder folder;
  std::vector<LazyTensor> source;
  for (int64_t i = 0; i < kTensors; ++i) {
    source.push_back({std::to_string(i), at::kByte, {kTensorBytes}, [i] {
                        return torch::full({kTensorBytes}, i + 1, at::kByte);
                      }});
  }
  stream_checkpoint(folder.path(), source);
  const TensorCheckpoint checkpoint(folder.path());
  std::vector<at::Tensor> targets;
  for (int64_t i = 0; i < kTensors; ++i) {
    targets.push_back(torch::zeros({kTensorBytes}, at::kByte).fill_(9));  // touched: resident
  }
  const int64_t before = status_bytes("VmHWM");
  ASSERT_LT(before - status_bytes("VmRSS"), kAllowedGrowth) << "an older peak would hide a new one";

  for (int64_t i = 0; i < kTensors; ++i) {
    checkpoint.copy_to(std::to_string(i), targets[static_cast<size_t>(i)]);
  }
  EXPECT_LT(status_bytes("VmHWM") - before, kAllowedGrowth);
  EXPECT_EQ(targets[1].min().item<int>(), 2);

  // The measure does see a mapping that is read and kept.
  EXPECT_EQ(checkpoint.view("0").max().item<int>(), 1);
  EXPECT_GT(status_bytes("VmHWM") - before, kTensorBytes / 2);
}

}  // namespace
}  // namespace reprise::testing
