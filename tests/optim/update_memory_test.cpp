// What an update takes besides parameters, gradients and state: it is bounded by a slice of the
// parameters, or for Muon by its largest matrix, and not by the model.
#include "support/tensors.h"

#include <reprise/memory.h>
#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace reprise::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

TEST(UpdateMemory, IsBoundedByASliceOfTheParameters) {
  track_cpu_memory();
  const std::map<OptimizerKind, std::pair<int64_t, int64_t>> most = {
      {OptimizerKind::AdamW, {0, 64}},
      {OptimizerKind::AdamW8bit, {64, 96}},
      {OptimizerKind::AdamWBf16, {64, 96}},
      {OptimizerKind::Lion, {64, 128}},
      {OptimizerKind::Adafactor, {32, 64}},
      {OptimizerKind::RmsProp, {128, 192}},
      {OptimizerKind::Sgd, {0, 64}},
      {OptimizerKind::Muon, {3 * 10 + 6, 3 * 14 + 6}}};
  for (const auto& [kind, mebibytes] : most) {
    // More elements than any slice has; of a matrix that is multiplied, 3 Mi and 1 Mi.
    const bool is_muon = kind == OptimizerKind::Muon;
    const int64_t rows = is_muon ? 3072 : 12288, columns = is_muon ? 1024 : 2048;
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::str(name_of(kind), " ", dtype));
      const at::Tensor weight = torch::ones({rows, columns}, dtype);
      const auto optimizer =
          Optimizer::make({{"layers.0.weight", weight}}, {.kind = kind, .weight_decay = 0.1});
      weight.mutable_grad() = torch::ones({rows, columns}, dtype);
      optimizer->step(1e-3);  // makes tables and library workspaces
      const PeakTracker tracker(at::kCPU);
      optimizer->step(1e-3);
      const int64_t expected = dtype == at::kFloat ? mebibytes.first : mebibytes.second;
      EXPECT_EQ(optimizer->update_bytes(), expected * kMebibyte);
      EXPECT_LE(tracker.extra(), optimizer->update_bytes() + kMebibyte);  // malloc rounds
      EXPECT_GE(tracker.extra(), optimizer->update_bytes() * 3 / 4) << "the bound is far above";
    }
  }
}

}  // namespace
}  // namespace reprise::testing
