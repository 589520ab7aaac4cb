#include "model/generation/sampling.h"

#include <ATen/Functions.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace reprise {

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// With a penalty above 1, tokens that occurred become less likely: a positive logit is divided by
// it, a negative one multiplied.
at::Tensor penalize(const at::Tensor& logits, const at::Tensor& occurred, double penalty) {
  const auto penalized = at::where(logits < 0, logits * penalty, logits / penalty);
  return at::where(occurred, penalized, logits);
}

// Keeps tokens that tie with the k-th.
at::Tensor keep_top_k(const at::Tensor& logits, int64_t k) {
  const auto best = std::get<0>(logits.topk(std::min(k, logits.size(-1)), -1));
  return logits.masked_fill(logits < best.slice(-1, -1), kMinusInfinity);
}

// Keeps the fewest tokens whose probabilities sum to p: those left out sum to at most 1 - p.
at::Tensor keep_top_p(const at::Tensor& logits, double p) {
  const auto [sorted, order] = logits.sort(-1, /*descending=*/false);
  auto is_tail = sorted.softmax(-1).cumsum(-1) <= 1 - p;
  is_tail.slice(-1, -1).fill_(false);
  return logits.masked_fill(is_tail.scatter(-1, order, is_tail), kMinusInfinity);
}

// Keeps tokens that are at least `fraction` as likely as the most likely one.
at::Tensor keep_min_p(const at::Tensor& logits, double fraction) {
  const auto probabilities = logits.softmax(-1);
  const auto least = probabilities.amax(-1, /*keepdim=*/true) * fraction;
  return logits.masked_fill(probabilities < least, kMinusInfinity);
}

}  // namespace

namespace model {

void check_sampling(const SamplingOptions& options) {
  TORCH_CHECK(std::isfinite(options.temperature) && options.temperature >= 0,
              "[generate] temperature: expected 0 (greedy) or a positive number, found ",
              options.temperature);
  TORCH_CHECK(options.top_k >= 0,
              "[generate] top_k: expected 0 (off) or a number of tokens, found ",
              options.top_k);
  TORCH_CHECK(options.top_p > 0 && options.top_p <= 1,
              "[generate] top_p: expected a number above 0 and at most 1 (off), found ",
              options.top_p);
  TORCH_CHECK(options.min_p >= 0 && options.min_p <= 1,
              "[generate] min_p: expected a number from 0 (off) to 1, found ",
              options.min_p);
  TORCH_CHECK(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0,
              "[generate] repetition_penalty: expected a positive number (1: off), found ",
              options.repetition_penalty);
}

at::Tensor occurrences(const at::Tensor& ids, int64_t vocabulary) {
  // One extra column, for padding.
  auto occurred = at::zeros({ids.size(0), vocabulary + 1}, ids.options().dtype(at::kBool));
  occurred.scatter_(1, ids.masked_fill(ids < 0, vocabulary), true);
  return occurred.slice(1, 0, vocabulary);
}

at::Tensor filter(at::Tensor logits, const at::Tensor& occurred, const SamplingOptions& options) {
  if (options.repetition_penalty != 1) {
    logits = penalize(logits, occurred, options.repetition_penalty);
  }
  if (options.temperature > 0 && options.temperature != 1) {
    logits = logits / options.temperature;
  }
  if (options.top_k > 0) {
    logits = keep_top_k(logits, options.top_k);
  }
  if (options.top_p < 1) {
    logits = keep_top_p(logits, options.top_p);
  }
  if (options.min_p > 0) {
    logits = keep_min_p(logits, options.min_p);
  }
  return logits;
}

double uniform_at(const DrawIndex& index) {
  // A counter-based generator: the index is its state, so rows can be added, dropped and reordered.
  const auto stream =
      (static_cast<uint64_t>(index.prompt) << 32) | static_cast<uint32_t>(index.sample);
  at::philox_engine engine(index.seed, stream, static_cast<uint64_t>(index.step));
  const uint64_t high = engine(), low = engine();
  return std::ldexp(static_cast<double>(((high << 32) | low) >> 12), -52);
}

at::Tensor token_at(const at::Tensor& logits, const at::Tensor& uniforms) {
  const auto cumulative = logits.softmax(-1).cumsum(-1, at::kDouble);
  const auto total = cumulative.slice(-1, -1);
  // The first token whose cumulative probability exceeds the target: never one of probability 0.
  const auto found = at::searchsorted(cumulative,
                                      uniforms.unsqueeze(-1) * total,
                                      /*out_int32=*/false,
                                      /*right=*/true);
  return found.squeeze(-1).clamp_max(logits.size(-1) - 1);
}

}  // namespace model

at::Tensor filter_logits(at::Tensor logits,
                         const at::Tensor& seen_ids,
                         const SamplingOptions& options) {
  model::check_sampling(options);
  TORCH_CHECK(logits.dim() == 2 && at::isFloatingType(logits.scalar_type()),
              "[generate] logits: expected floating point (batch, vocabulary), found ",
              logits.scalar_type(),
              logits.sizes());
  const int64_t vocabulary = logits.size(1);
  at::Tensor occurred;
  if (options.repetition_penalty != 1) {
    TORCH_CHECK(seen_ids.defined() && seen_ids.dim() == 2 && seen_ids.size(0) == logits.size(0) &&
                    seen_ids.scalar_type() == at::kLong,
                "[generate] repetition_penalty needs the ids seen so far: int64 (batch, length).");
    TORCH_CHECK(seen_ids.numel() == 0 || (seen_ids.min().item<int64_t>() >= -1 &&
                                          seen_ids.max().item<int64_t>() < vocabulary),
                "[generate] seen_ids: expected ids below ",
                vocabulary,
                ", or -1 for padding.");
    occurred = model::occurrences(seen_ids, vocabulary);
  }
  return model::filter(logits.to(at::kFloat), occurred, options);
}

}  // namespace reprise
