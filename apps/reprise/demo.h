// `reprise demo`: the same small training three ways, side by side.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::app {

struct DemoOptions {
  int steps = 5;
  int layers = 6;
  int batch = 4;
  int length = 256;
  uint64_t seed = 0;
  std::string device;  // empty: the GPU if there is one
};

/// Returns the exit code: 0 if all three ways gave the same losses and gradients to the last bit.
int run_demo(const DemoOptions& options);

}  // namespace reprise::app
