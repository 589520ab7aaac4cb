// Random programs that were printed as C++ and compiled (`program_fuzz --print`, in the build).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise::fuzz {

struct PrintedProgram {
  uint64_t seed;
  std::map<std::string, at::Tensor> (*run)(bool with_regions);
};

std::vector<PrintedProgram> printed_programs();

}  // namespace reprise::fuzz
