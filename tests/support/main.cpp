// One main for all tests: sets LibTorch up before anything touches it.
//   --file=<name>   runs the tests of <name>.cpp alone, and goes on behind one that crashes
#include "support/crash_isolation.h"
#include "support/devices.h"

#include <reprise/memory.h>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace {

int run_tests() {
  reprise::testing::load_cuda();
  reprise::track_cpu_memory();
  // The tensors are tiny; more threads would only wait for each other on a busy machine.
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Some virtual CPUs announce AMX and fault on it; an explicit setting of the user's wins.
  setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
  // cuBLAS is deterministic only with a workspace of fixed size.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  constexpr const char* kFile = "--file=";
  if (argc == 2 && std::strncmp(argv[1], kFile, std::strlen(kFile)) == 0) {
    return reprise::testing::run_isolated(argv[1] + std::strlen(kFile), run_tests);
  }
  return run_tests();
}
