// Which kernels LibTorch takes where it has several: attention, and whether sums may be added in an
// order of their own. Settings of the whole process, to be made before the first model.
#pragma once

#include <reprise/export.h>

#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <string>

namespace reprise {

enum class AttentionKernel : uint8_t {
  Flash,  ///< takes every length at once, and repeats to the last bit where that is asked for
  Cudnn,  ///< the fastest on Hopper and newer, but it plans every new shape for a while, and its
          ///< backward adds as blocks finish. What it does not take, flash does
  Math,   ///< no fused kernel: scores of the size T x T, for comparison
};

/// "flash", "cudnn", "math"; throws for any other name.
REPRISE_API AttentionKernel parse_attention_kernel(const std::string& name);

struct KernelChoice {
  AttentionKernel attention = AttentionKernel::Flash;
  /// Every kernel repeats to the last bit, or LibTorch refuses it. On a GPU a step takes about a
  /// tenth longer. False leaves the process as it is.
  bool is_deterministic = false;
};

/// Throws for cuDNN's attention in deterministic mode, which it has not. Deterministic mode also
/// sets CUBLAS_WORKSPACE_CONFIG, if the environment does not: cuBLAS reads it at its first call.
REPRISE_API void choose_kernels(const KernelChoice& choice);

struct AttentionHeads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t length = 0;  ///< of a row
  double dropout = 0;
};

/// Which attention LibTorch takes now for causal rows of this shape, type and device: "flash",
/// "efficient", "cudnn", "math", or what else it calls its own.
REPRISE_API std::string served_attention(const AttentionHeads& shape,
                                         const at::TensorOptions& options);

/// The first number of the first GPU's compute capability: 8 is Ampere, 9 Hopper; 0: no GPU.
REPRISE_API int gpu_generation();

}  // namespace reprise
