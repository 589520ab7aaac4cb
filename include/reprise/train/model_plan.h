// What training a model takes on a device that need not be here: from its configuration alone, in
// seconds, without weights.
//
//   ModelPlanRequest request;
//   request.config = ModelConfig::read(folder);
//   request.device = device_profile("h200");
//   request.rows = 8;
//   request.length = 2048;
//   const ModelPlan plan = plan_model(request);
//
// The step is run on tensors without memory, so bytes are counted, not estimated; times are
// predicted by a roofline. docs/planner.md says how close both are.
#pragma once

#include <reprise/device_profile.h>
#include <reprise/export.h>
#include <reprise/model/config.h>
#include <reprise/model/lora.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/spread.h>
#include <reprise/train/memory_budget.h>
#include <reprise/train/memory_report.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise {

enum class PlannedObjective : uint8_t { Sft, Rm, Dpo, Kto, Kd, Grpo, Ppo };

/// By the command's name; throws listing those there are.
REPRISE_API PlannedObjective parse_planned_objective(std::string_view name);

/// Training in several processes, each with a device and a micro-batch of its own.
struct PlannedWorld {
  int64_t size = 1;
  Parallel strategy = Parallel::Ddp;
};

struct ModelPlanRequest {
  ModelConfig config;
  DeviceProfile device;
  at::ScalarType dtype = at::kBFloat16;         ///< of the parameters
  std::optional<at::ScalarType> autocast = {};  ///< the type of products over float32 parameters
  PlannedObjective objective = PlannedObjective::Sft;
  /// Of the teacher of kd, which needs one, and of nothing else.
  std::optional<ModelConfig> teacher = {};
  std::optional<LoraConfig> lora = {};  ///< unset: all weights are trained
  OptimizerOptions optimizer = {};
  int64_t rows = 1;          ///< of a micro-batch; pairs for rm and dpo
  int64_t length = 1024;     ///< tokens of a row
  int64_t accumulation = 1;  ///< micro-batches of a step
  /// Unset: one process has all. Bytes and rows are those of one process.
  std::optional<PlannedWorld> world = {};
  MemoryLimits limits = {};  ///< neither activations nor total: what the device has
};

/// Bytes beside the activations, by class.
struct StandingBytes {
  int64_t parameters = 0;
  int64_t frozen = 0;  ///< parameters of other models: a reference, a teacher, a critic
  int64_t gradients = 0;
  int64_t optimizer = 0;   ///< with float32 copies of 16-bit parameters
  int64_t gathered = 0;    ///< in a world, at the most: see SpreadBytes
  int64_t reductions = 0;  ///< the same
  int64_t sum() const { return kept() + gradients + gathered + reductions; }
  int64_t kept() const { return parameters + frozen + optimizer; }  ///< between steps
};

/// One way to run a step.
struct PlannedStep {
  int64_t rows = 0;
  int64_t activation_bytes = 0;  ///< at the peak
  double step_ms = 0;            ///< forward and backward of all micro-batches, and the update
  double slowdown = 1;           ///< step_ms over that without checkpointing
  double tokens_per_second = 0;
  int64_t plain_blocks = 0;  ///< that keep everything
  int64_t mixed_blocks = 0;  ///< that keep some results; the other blocks keep their input only
};

struct ModelPlan {
  StandingBytes standing;
  c10::DeviceType device_type = c10::kCUDA;
  int64_t device_bytes = 0;  ///< that a run can use: the device's less a margin for its allocator
  int64_t loss_bytes = 0;    ///< of the head and the loss, at their peak
  int64_t cache_bytes = 0;   ///< of keys and values while grpo and ppo generate, a batch of rows
  int64_t budget = 0;        ///< of activations, as the limits say
  std::vector<PlannedStep> curve;    ///< from the least bytes to no checkpointing
  size_t chosen = 0;                 ///< of the curve: the fastest within the budget
  std::vector<PlannedStep> batches;  ///< 1, 2, 4, ... rows: the fastest that the device can hold
  size_t fastest = 0;                ///< of the batches; there is none if they are empty
  int64_t most_rows = 0;             ///< of this length that the device can hold; 0: none
  int64_t longest_row = 0;           ///< tokens, with as many rows as asked for; 0: none
  MemoryReport report;               ///< of the chosen plan, as a page: write_memory_report

  const PlannedStep& least() const { return curve.front(); }
  const PlannedStep& plain() const { return curve.back(); }
};

/// Throws for a budget that no plan fits, naming the least that would do.
REPRISE_API ModelPlan plan_model(const ModelPlanRequest& request);

}  // namespace reprise
