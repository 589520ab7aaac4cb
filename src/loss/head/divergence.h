// Divergences between two distributions over a vocabulary for a chunk of tokens, with the gradients
// of the student's logits.
#pragma once

#include "loss/head/head_chunks.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// Chunk-sized buffers beside the logits of both heads; only Jensen-Shannon needs the second.
struct DivergenceBuffers {
  ChunkBuffer first, second;
};

struct ChunkDivergence {
  at::Tensor values;  ///< (n)
  at::Tensor
      grad_logits;  ///< (n, V): gradients of the student's logits; undefined if not requested
};

enum class LogitGradients : uint8_t { None, OfStudent };

/// student and teacher: contiguous logits (n, V), already divided by the temperature. Both are
/// overwritten; grad_logits shares memory with one of them or with a buffer.
ChunkDivergence divergence_of(const DivergenceOptions& options,
                              at::Tensor student,
                              at::Tensor teacher,
                              LogitGradients wanted,
                              DivergenceBuffers& buffers);

}  // namespace reprise
