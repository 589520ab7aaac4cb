// Products of row-major matrices through cublasLt, for linear layers: sums in an epilogue need no
// pass of their own. LibTorch's headers stay out.
//
// Sums are float32, also where cublasLt splits k. A product runs with the algorithm that cublasLt
// proposes first, so a repeated call gives the same bits. Timing its proposals and taking the
// fastest was tried: a step of Llama-3.2-1B's shape on an H200 takes as long, as power limits it.
#pragma once

#include "ops/cuda/kernels.h"

#include <cstddef>
#include <cstdint>

namespace reprise::cuda {

/// d (m, n) = alpha * a (m, k) b (k, n) + beta * c (m, n) + bias (n), with rows `ld` values apart.
/// Runs on the stream; all memory is the caller's and must live until it is done.
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
  void* workspace = nullptr;  // on 256 bytes; 32 MiB lets Hopper choose freely
  size_t workspace_bytes = 0;
};
void launch(const Matmul& job, cudaStream_t stream);

}  // namespace reprise::cuda
