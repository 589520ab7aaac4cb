// Out of memory: what used it, and which setting would have helped by how much.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/train/memory_meter.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace reprise {

/// Whether an error is an allocator's.
REPRISE_API bool is_out_of_memory(const std::exception& error);

/// What a step was doing when memory ran out.
struct MemoryDemand {
  MemoryClasses classes;      ///< in use, as far as the step got
  int64_t step = 0;           ///< from 1
  int64_t micro_batches = 1;  ///< of the step
  int64_t rows = 0;           ///< of the micro-batch
  int64_t length = 0;         ///< tokens of a row
};

/// A message of several lines: the bytes by class, then flags that save some, with how many.
REPRISE_API std::string explain_out_of_memory(const std::string& error,
                                              const MemoryDemand& demand,
                                              const Model& model);

/// What a pass over data without gradients was doing: an evaluation, or the reference's.
struct PassDemand {
  std::string what;        ///< "the evaluation"
  std::string batch_flag;  ///< the setting of its batch size, with dashes
  int64_t rows = 0;        ///< of the batch
  int64_t length = 0;      ///< tokens of a row
};

/// The same for such a pass.
REPRISE_API std::string explain_out_of_memory(const std::string& error,
                                              const PassDemand& demand,
                                              const Model& model);

/// Runs `work`. If memory runs out in it, throws what `explain` makes of the allocator's words.
REPRISE_API void explaining_memory(
    const std::function<void()>& work,
    const std::function<std::string(const std::string& error)>& explain);

}  // namespace reprise
