// A memory plan for its reader: what a step holds as time goes by, and why each result is kept or
// computed again. Plain values; MemoryPlan (plan.h) makes them, memory_report.h draws them.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

enum class StepStage : uint8_t {
  Before,     ///< before the first region
  Forward,    ///< of a region, what follows it up to the next one included
  Head,       ///< from the last region's forward to the first backward of one
  Recompute,  ///< of a region
  Backward,   ///< of a region, what follows it up to the next one included
};

/// A stretch of a step. Bytes are those at its fullest moment, by what they are for.
struct REPRISE_API TimelinePoint {
  StepStage stage = StepStage::Before;
  size_t region = 0;  ///< the one that runs, in the order of the step; 0 before and in the head
  double start_ms = 0;
  double duration_ms = 0;
  int64_t input_bytes = 0;     ///< inputs of regions, and what was made before the first of them
  int64_t kept_bytes = 0;      ///< results that regions hold for their backward
  int64_t working_bytes = 0;   ///< of the region that runs
  int64_t head_bytes = 0;      ///< of head and loss
  int64_t gradient_bytes = 0;  ///< of parameters, made in this step, where they are counted

  int64_t total() const;
};

/// A step from its begin to its end, without gaps.
struct REPRISE_API StepTimeline {
  std::vector<TimelinePoint> points;

  int64_t peak() const;
  double duration_ms() const;
};

enum class RowChoice : uint8_t {
  Plain,      ///< the whole region runs as if it were none
  Keep,       ///< stays on the device
  Offload,    ///< waits in host memory
  Compress,   ///< stays in a smaller form
  Recompute,  ///< computed again in backward
  Nothing,    ///< takes no bytes, or backward does without it
};

/// What becomes of one operator's result, or of a region as a whole, and why. Rows stand for runs
/// of regions that do the same; numbers are for one of them.
struct PlanRow {
  std::string regions;  ///< "layers.0", "layers.1 to layers.14"
  size_t region_count = 1;
  std::string op = {};  ///< "aten::mm #2"; empty: the region as a whole, before its operators
  RowChoice choice = RowChoice::Nothing;
  int64_t bytes = 0;     ///< held (as a whole), or of the result
  double ms = 0;         ///< of recompute: paid if Recompute, saved otherwise
  std::string why = {};  ///< a short sentence
};

}  // namespace reprise
