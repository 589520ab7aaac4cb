// Predicts the memory and time of training a model on a device that need not be present: from the
// model's configuration alone, without weights, in seconds.
//
//   ModelPlanRequest request;
//   request.config = ModelConfig::read(folder);
//   request.device = device_profile("h200");
//   request.rows = 8;
//   request.length = 2048;
//   const ModelPlan plan = plan_model(request);
//
// The step runs on meta tensors, so bytes are counted, not estimated; times are predicted by a
// roofline. docs/planner.md says how accurate both are.
#pragma once

#include <reprise/data/rows.h>
#include <reprise/device_profile.h>
#include <reprise/export.h>
#include <reprise/model/config.h>
#include <reprise/model/lora.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>
#include <reprise/report/memory_report.h>
#include <reprise/train/memory_budget.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise {

/// The objective of that name. Throws for others and for prm, which cannot be planned.
REPRISE_API Objective parse_planned_objective(std::string_view name);

/// Training in several processes, each with its own device and micro-batch.
struct ParallelSetup {
  int64_t size = 1;  ///< number of processes
  Parallel strategy = Parallel::Ddp;
};

struct ModelPlanRequest {
  ModelConfig config;
  DeviceProfile device;
  at::ScalarType dtype = at::kBFloat16;         ///< of the parameters
  std::optional<at::ScalarType> autocast = {};  ///< type of matrix products, for mixed precision
  Objective objective = Objective::Sft;
  /// The teacher's configuration, required for kd and refused otherwise.
  std::optional<ModelConfig> teacher = {};
  std::optional<LoraConfig> lora = {};  ///< unset: train all weights
  OptimizerOptions optimizer = {};
  int64_t rows = 1;          ///< of a micro-batch; for rm and dpo, pairs
  int64_t length = 1024;     ///< tokens of a row
  int64_t accumulation = 1;  ///< micro-batches of a step
  /// Unset: a single process. Bytes and rows are those of one process.
  std::optional<ParallelSetup> world = {};
  MemoryLimits limits = {};  ///< with neither activations nor total: the device's memory
};

/// Bytes other than activations, by class.
struct StandingBytes {
  int64_t parameters = 0;
  int64_t frozen = 0;  ///< parameters of other models: a reference, a teacher, a critic
  int64_t gradients = 0;
  int64_t optimizer = 0;   ///< including float32 copies of 16-bit parameters
  int64_t host = 0;        ///< not on the device: gradients and optimizer state in host memory
  int64_t update = 0;      ///< what an update takes beyond the others, when activations are gone
  int64_t gathered = 0;    ///< peak of gathered parameters with several processes: see ShardBytes
  int64_t reductions = 0;  ///< peak of gradients being reduced: see ShardBytes
  int64_t sum() const { return kept() + gradients + gathered + reductions; }
  int64_t kept() const { return parameters + frozen + optimizer; }  ///< between steps
};

/// The predicted cost of one way to run a step.
struct StepEstimate {
  int64_t rows = 0;
  int64_t activation_bytes = 0;  ///< at the peak
  double step_ms = 0;            ///< forward and backward of all micro-batches, and the update
  double slowdown = 1;           ///< step_ms relative to a step without checkpointing
  double tokens_per_second = 0;
  int64_t plain_blocks = 0;  ///< blocks that keep everything
  int64_t mixed_blocks = 0;  ///< blocks that keep some results; the others keep only their input
};

/// What a step takes if gradients or optimizer state are in host memory.
struct PlacementEstimate {
  Placement host;
  int64_t least_bytes = 0;  ///< peak on the device if every block is recomputed
  int64_t host_bytes = 0;
  int64_t moved_bytes = 0;    ///< by a step, both ways together
  bool fits = false;          ///< the device
  StepEstimate fastest = {};  ///< that fits; unset if none does
};

/// What training takes, and what fits the device.
struct ModelPlan {
  StandingBytes standing;
  Placement host;  ///< more than was asked for if the total budget is too small without
  /// Every placement, on a GPU and in one process.
  std::vector<PlacementEstimate> placements;
  c10::DeviceType device_type = c10::kCUDA;
  int64_t device_bytes = 0;           ///< usable memory: a margin is left to the allocator
  int64_t loss_bytes = 0;             ///< peak of the head and the loss
  int64_t cache_bytes = 0;            ///< KV cache while grpo and ppo generate a batch of rows
  int64_t budget = 0;                 ///< for activations, from the request's limits
  std::vector<StepEstimate> curve;    ///< from the fewest bytes to no checkpointing
  size_t chosen = 0;                  ///< index in the curve: the fastest within the budget
  std::vector<StepEstimate> batches;  ///< 1, 2, 4, ... rows: the fastest that the device can hold
  size_t fastest = 0;                 ///< index in batches, unless they are empty
  int64_t most_rows = 0;              ///< most rows of this length that fit the device; 0: none
  int64_t longest_row = 0;            ///< most tokens of a row that fit, with these rows; 0: none
  MemoryReport report;                ///< of the chosen plan, for write_memory_report

  const StepEstimate& least() const { return curve.front(); }
  const StepEstimate& plain() const { return curve.back(); }
};

/// If no plan fits the budget, throws and names the least one that does.
REPRISE_API ModelPlan plan_model(const ModelPlanRequest& request);

}  // namespace reprise
