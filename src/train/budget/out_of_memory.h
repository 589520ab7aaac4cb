// Explains an out-of-memory error: what used the memory, and which settings would save how much.
#pragma once

#include <reprise/export.h>
#include <reprise/live_tensors.h>
#include <reprise/model/model.h>
#include "train/budget/memory_meter.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace reprise {

/// What a step was doing when memory ran out.
struct MemoryDemand {
  MemoryClasses classes;      ///< in use when it failed
  int64_t step = 0;           ///< from 1
  int64_t micro_batches = 1;  ///< of the step
  int64_t rows = 0;           ///< of the micro-batch
  int64_t length = 0;         ///< tokens of a row
};

/// A message of several lines: the bytes by class, then options that save memory, and how much.
REPRISE_API std::string explain_out_of_memory(const std::string& error,
                                              const MemoryDemand& demand,
                                              const Model& model);

/// What a pass without gradients was doing, such as an evaluation or the reference's log
/// probabilities.
struct PassDemand {
  std::string what;          ///< "the evaluation"
  std::string batch_option;  ///< the option with its batch size, for the advice
  int64_t rows = 0;          ///< of the batch
  int64_t length = 0;        ///< tokens of a row
};

/// The same for such a pass.
REPRISE_API std::string explain_out_of_memory(const std::string& error,
                                              const PassDemand& demand,
                                              const Model& model);

/// Runs `work`. If it runs out of memory, throws an error with the text that `explain` makes of the
/// allocator's message.
REPRISE_API void explaining_memory(
    const std::function<void()>& work,
    const std::function<std::string(const std::string& error)>& explain);

}  // namespace reprise
