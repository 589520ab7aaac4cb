// Out of memory: what used it, and which setting would have helped by how much.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/train/memory_meter.h>

#include <cstdint>
#include <exception>
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

}  // namespace reprise
