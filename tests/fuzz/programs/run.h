// Runs a program, with its regions or without them, and returns all that can be observed.
#pragma once

#include "fuzz/programs/program.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace reprise::fuzz {

struct RunOptions {
  bool with_regions = false;
  /// A row of operators(), or -1. With regions, the gradient of its results inside a region is
  /// made wrong, which proves that the tester can fail.
  int fault = -1;
};

struct Observed {
  std::string what;
  at::Tensor value;  ///< a copy; may be undefined
};

/// Runs the program from its seed. Afterwards the default generator is as the program left it.
std::vector<Observed> run(const Program& program, const RunOptions& options);

}  // namespace reprise::fuzz
