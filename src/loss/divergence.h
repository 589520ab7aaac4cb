// Divergences between two distributions over a vocabulary, of a chunk of tokens, with what they say
// to the student's logits.
#pragma once

#include "loss/head_chunks.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// Chunk-sized room beside the two heads' logits; the second for Jensen-Shannon only.
struct DivergenceRoom {
  ChunkBuffer first, second;
};

struct ChunkDivergence {
  at::Tensor values;  ///< (n)
  at::Tensor slopes;  ///< (n, V): gradients of the student's logits, as given; undefined: not asked
};

enum class Slopes : uint8_t { None, OfStudent };

/// Of logits (n, V), contiguous and already over the temperature. Both are overwritten; slopes lie
/// in one of them or in the room.
ChunkDivergence divergence_of(const DivergenceOptions& options,
                              at::Tensor student,
                              at::Tensor teacher,
                              Slopes slopes,
                              DivergenceRoom& room);

}  // namespace reprise
