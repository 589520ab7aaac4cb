// One main for all tests: sets LibTorch up before anything touches it.
#include "support/devices.h"

#include <reprise/memory.h>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Some virtual CPUs announce AMX and fault on it; an explicit setting of the user's wins.
  setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
  // cuBLAS is deterministic only with a workspace of fixed size.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  reprise::testing::load_cuda();
  reprise::track_cpu_memory();
  // The tensors are tiny; more threads would only wait for each other on a busy machine.
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}
