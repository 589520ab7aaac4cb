// The choice of the next token: filters over logits, and random numbers that depend only on the
// indices of a sequence.
#pragma once

#include <reprise/model/generate.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::model {

/// Throws for an invalid value, and names it.
void check_sampling(const SamplingOptions& options);

/// Which ids of the vocabulary occur in each row of `ids` (B, T): bool (B, vocabulary). -1 is
/// padding.
at::Tensor occurrences(const at::Tensor& ids, int64_t vocabulary);

/// filter_logits() for float32 logits and known occurrences.
at::Tensor filter(at::Tensor logits, const at::Tensor& occurred, const SamplingOptions& options);

/// The index of a random number: equal indices give equal numbers, whatever was drawn before.
struct DrawIndex {
  uint64_t seed = 0;
  int64_t prompt = 0;
  int64_t sample = 0;
  int64_t step = 0;
};

/// A uniform number in [0, 1).
double uniform_at(const DrawIndex& index);

/// Inverse transform sampling: for each row of filtered logits (B, vocabulary) the token where the
/// cumulative probability reaches `uniforms`, double (B). Returns int64 (B).
at::Tensor token_at(const at::Tensor& logits, const at::Tensor& uniforms);

}  // namespace reprise::model
