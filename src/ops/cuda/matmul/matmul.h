// Products of row-major matrices through cublasLt, for linear layers: its epilogue adds bias and
// residual without a pass of its own. Without LibTorch's headers.
//
// Sums are float32, also where cublasLt splits k. A product runs with the first algorithm that
// cublasLt proposes, so a repeated call gives the same bits. Timing the proposals and taking the
// fastest gained nothing: a step of Llama-3.2-1B's shape on an H200 is limited by power.
#pragma once

#include "ops/cuda/kernels.h"

#include <cstddef>
#include <cstdint>

namespace reprise::cuda {

/// d (m, n) = alpha * a (m, k) b (k, n) + beta * c (m, n) + bias (n), with rows `ld` values apart.
/// Runs on the stream. The caller owns all memory and keeps it until the product is done.
struct Matmul {
  Type in;   // of a and b
  Type out;  // of c, d and bias: as in, or Float
  const void* a;
  const void* b;
  const void* c = nullptr;  // may be d; not read if beta is 0
  void* d;
  const void* bias = nullptr;  // added to every row
  int64_t m, n, k;
  int64_t lda, ldb, ldc = 0, ldd;
  bool transpose_a = false;  // a is stored (k, m)
  bool transpose_b = false;  // b is stored (n, k), as the weight of a linear layer
  bool allow_tf32 = false;   // for Type::Float
  float alpha = 1.0f, beta = 0.0f;
  void* workspace = nullptr;  // aligned to 256 bytes; see ops::kMatmulWorkspaceBytes
  size_t workspace_bytes = 0;
};
void launch(const Matmul& job, cudaStream_t stream);

}  // namespace reprise::cuda
