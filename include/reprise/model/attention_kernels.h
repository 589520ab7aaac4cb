// Which kernels LibTorch uses where it has several: for attention, and deterministic ones or not.
// These are settings of the whole process; make them before the first model.
#pragma once

#include <reprise/export.h>

#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <string>

namespace reprise {

struct ModelConfig;

enum class AttentionKernel : uint8_t {
  Flash,  ///< fast for every shape at once, and deterministic on request
  Cudnn,  ///< the fastest on Hopper and newer, but slow on the first use of each shape, and its
          ///< backward is not deterministic. Shapes that it does not support go to flash
  Math,   ///< no fused kernel: allocates T x T scores; for comparison
};

/// Parses "flash", "cudnn" or "math"; throws for any other name.
REPRISE_API AttentionKernel parse_attention_kernel(const std::string& name);

struct KernelChoice {
  AttentionKernel attention = AttentionKernel::Flash;
  /// Use only deterministic kernels; LibTorch throws where it has none. On a GPU a step takes about
  /// a tenth longer. False leaves LibTorch's setting as it is.
  bool is_deterministic = false;
};

/// Applies the choice to the process. Throws for cuDNN's attention in deterministic mode, which
/// cuDNN does not support. Deterministic mode also sets CUBLAS_WORKSPACE_CONFIG, which cuBLAS reads
/// at its first call, unless the environment has it.
REPRISE_API void choose_kernels(const KernelChoice& choice);

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t length = 0;  ///< tokens of a row
  double dropout = 0;
};

/// Whether a model's scores are more than scaled products: with a soft cap or a bias by head. No
/// kernel of LibTorch computes these, so that reprise::sliced_attention does, whatever was chosen.
REPRISE_API bool has_shaped_scores(const ModelConfig& config);

/// The kernel that LibTorch would now use for causal attention of this shape, type and device:
/// "flash", "efficient", "cudnn", "math", "overrideable" or "none".
REPRISE_API std::string served_attention(const AttentionShape& shape,
                                         const at::TensorOptions& options);

/// Major compute capability of the first GPU: 8 is Ampere, 9 is Hopper; 0: there is no GPU.
REPRISE_API int gpu_generation();

}  // namespace reprise
