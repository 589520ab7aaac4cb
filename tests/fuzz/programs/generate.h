// Makes a program from a seed. Most programs run; a share of them leaves what regions support, to
// see that they are refused.
#pragma once

#include "fuzz/programs/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::fuzz {

struct GenerateOptions {
  /// Names of operators and features (see generator.h) that programs do without.
  std::vector<std::string> without = {};
  /// Features that programs do without unless they are named here.
  std::vector<std::string> with = {};
};

Program generate(uint64_t seed, const GenerateOptions& options = {});

}  // namespace reprise::fuzz
