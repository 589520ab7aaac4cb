// The choice of the next token: filters over logits, and draws that depend on nothing but a
// sequence's own numbers.
#pragma once

#include <reprise/model/generate.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::detail {

/// Throws for a value that has no meaning, naming it.
void check_sampling(const SamplingOptions& options);

/// Which ids of a vocabulary occur in each row of `ids` (B, T): bool (B, vocabulary). -1 is none.
at::Tensor occurrences(const at::Tensor& ids, int64_t vocabulary);

/// filter_logits for float32 logits and occurrences that are known already.
at::Tensor filter(at::Tensor logits, const at::Tensor& occurred, const SamplingOptions& options);

/// One place in a random sequence; equal places give equal numbers, whatever was drawn before.
struct DrawPlace {
  uint64_t seed = 0;
  int64_t prompt = 0;
  int64_t sample = 0;
  int64_t step = 0;
};

/// A number in [0, 1).
double uniform_at(const DrawPlace& place);

/// For each row of filtered logits (B, vocabulary) the token at that fraction of the probability,
/// `uniforms` being double (B): int64 (B).
at::Tensor token_at(const at::Tensor& logits, const at::Tensor& uniforms);

}  // namespace reprise::detail
