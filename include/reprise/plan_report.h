// A memory plan for people: the memory of a step over time, and why each result is kept or
// recomputed. Plain values, made by MemoryPlan (plan.h) and drawn by report/memory_report.h.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

enum class StepStage : uint8_t {
  Before,     ///< before the first region
  Forward,    ///< a region's forward, and whatever follows it up to the next region
  Head,       ///< from the last region's forward to the first region's backward
  Recompute,  ///< a region's recompute
  Backward,   ///< a region's backward, and whatever follows it up to the next region
};

/// One stage of a step. Bytes are those at its peak, by purpose.
struct REPRISE_API TimelinePoint {
  StepStage stage = StepStage::Before;
  size_t region = 0;  ///< index of the region that runs; 0 before the first and in the head
  double start_ms = 0;
  double duration_ms = 0;
  int64_t input_bytes = 0;     ///< inputs of regions, and tensors made before the first region
  int64_t kept_bytes = 0;      ///< results that regions hold for their backward
  int64_t working_bytes = 0;   ///< working memory of the region that runs
  int64_t head_bytes = 0;      ///< head and loss
  int64_t gradient_bytes = 0;  ///< parameter gradients made in this step, if the plan counts them

  int64_t total() const;
};

/// A step from start to end, without gaps.
struct REPRISE_API StepTimeline {
  std::vector<TimelinePoint> points;

  int64_t peak() const;
  double duration_ms() const;
};

enum class RowChoice : uint8_t {
  Plain,      ///< the whole region runs without checkpointing
  Keep,       ///< stays on the device
  Offload,    ///< waits in host memory
  Compress,   ///< stays on the device, compressed
  Recompute,  ///< recomputed in backward
  Nothing,    ///< takes no bytes, or backward does not need it
};

/// What happens to one operator's result, or to a whole region, and why. A row stands for a run of
/// regions that do the same; its numbers are those of one of them.
struct PlanRow {
  std::string regions;  ///< "layers.0", "layers.1 to layers.14"
  size_t region_count = 1;
  std::string op = {};  ///< "aten::mm #2"; empty: the whole region, listed before its operators
  RowChoice choice = RowChoice::Nothing;
  int64_t bytes = 0;     ///< that the region holds, or of the operator's result
  double ms = 0;         ///< recompute time: paid if Recompute, saved otherwise
  std::string why = {};  ///< a short sentence
};

}  // namespace reprise
