// Runs a program, with its regions or without them, and returns all that can be observed.
#pragma once

#include "fuzz/programs/program.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

namespace reprise::fuzz {

struct RunOptions {
  bool with_regions = false;
  /// A row of operators(), or -1. With regions, the gradient of its results inside a region is
  /// made wrong, which proves that the tester can fail.
  int fault = -1;
};

/// Runs the program from its seed. Returns all that can be observed afterwards:
/// registers, gradients of leaves, states of generators. Some may be undefined.
std::vector<at::Tensor> run(const Program& program, const RunOptions& options);

/// What element `index` of that list is.
std::string observed_name(const Program& program, size_t index);

}  // namespace reprise::fuzz
