// Reduces per-token inputs to per-response inputs.
#include "loss/upcast.h"

#include <reprise/loss/preference.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

namespace {

// ColossalChat adds this inside the log of the odds, for tokens of probability 1.
constexpr double kTokenOddsMargin = 1e-4;

void check(const PairTokens& tokens) {
  const auto& logps = tokens.logps;
  TORCH_CHECK(logps.defined() && logps.dim() == 2 && logps.size(0) > 0 && logps.size(0) % 2 == 0,
              "[preference] expected log-probabilities (2B, T), chosen rows before rejected rows, "
              "found ",
              logps.defined() ? c10::str(logps.sizes()) : "none");
  const auto check_shape = [&](const at::Tensor& other, const char* name) {
    TORCH_CHECK(other.defined() && other.sizes() == logps.sizes(),
                "[preference] expected ",
                name,
                " with the shape of the log-probabilities, ",
                logps.sizes(),
                ", found ",
                other.defined() ? c10::str(other.sizes()) : "none");
  };
  check_shape(tokens.mask, "mask");
  if (tokens.log_sum_p2.defined()) {
    check_shape(tokens.log_sum_p2, "log_sum_p2");
  }
  if (tokens.attended.defined()) {
    check_shape(tokens.attended, "attended");
  }
}

// LD-DPO weights: 1 up to the length of the shorter response of the pair, then alpha.
at::Tensor length_weights(const at::Tensor& mask, double alpha) {
  const auto lengths = mask.sum(1);
  const auto pairs = lengths.chunk(2);
  const auto shared = at::minimum(pairs[0], pairs[1]).repeat({2}).unsqueeze(1);
  return at::where(mask.cumsum(1) <= shared, 1.0, alpha);
}

// WPO weights: exp of the mean of log p - log sum p^2 over a response, for both responses.
at::Tensor pair_weights(const at::Tensor& logps,
                        const at::Tensor& log_sum_p2,
                        const at::Tensor& mask,
                        const at::Tensor& lengths) {
  const auto aligned = (logps - log_sum_p2).detach().masked_fill(~mask, 0);
  const auto weights = (aligned.sum(1) / lengths).exp().chunk(2);
  return weights[0] * weights[1];
}

// Mean of the values where `mask` is true, over all rows; 0 if there are none.
at::Tensor mean_at(const at::Tensor& values, const at::Tensor& mask) {
  return values.masked_fill(~mask, 0).sum() / mask.sum().clamp_min(1);
}

at::Tensor token_log_odds(const at::Tensor& logps, const at::Tensor& mask) {
  // Values outside the responses may be anything, even some without log odds; their gradient must
  // be 0, not NaN.
  const auto inside = logps.masked_fill(~mask, -1);
  const auto odds = (inside - (1 + kTokenOddsMargin - inside.exp()).log()).chunk(2);
  const auto masks = mask.chunk(2);
  return mean_at(odds[0], masks[0]) - mean_at(odds[1], masks[1]);
}

}  // namespace

PairLogps reduce_pairs(const PairTokens& tokens, const PreferenceOptions& options) {
  check(tokens);
  const auto logps = upcast(tokens.logps);
  const auto mask = tokens.mask.ne(0);
  const auto of_responses = logps.masked_fill(~mask, 0);
  const auto lengths = mask.sum(1).clamp_min(1).to(logps.scalar_type());
  const auto plain_sums = of_responses.sum(1);
  const auto sums =
      (options.ld_alpha ? (of_responses * length_weights(mask, *options.ld_alpha)).sum(1)
                        : plain_sums)
          .chunk(2);
  const auto pair_lengths = lengths.chunk(2);
  const auto chosen_mask = mask.chunk(2)[0];
  const auto chosen_logps = logps.chunk(2)[0];

  PairLogps pairs;
  pairs.chosen = sums[0];
  pairs.rejected = sums[1];
  pairs.chosen_lengths = pair_lengths[0];
  pairs.rejected_lengths = pair_lengths[1];
  pairs.token_nll = -mean_at(chosen_logps, chosen_mask);
  pairs.sequence_nll = -(plain_sums.chunk(2)[0] / pair_lengths[0]).mean();
  if (tokens.log_sum_p2.defined()) {
    pairs.weights = pair_weights(logps, upcast(tokens.log_sum_p2), mask, lengths);
  }
  if (tokens.attended.defined()) {
    pairs.prompt_nll = -mean_at(chosen_logps, tokens.attended.ne(0).chunk(2)[0]);
  }
  if (std::any_of(options.losses.begin(), options.losses.end(), [](const auto& entry) {
        return entry.first == PreferenceLoss::OrpoToken;
      })) {
    pairs.token_log_odds = token_log_odds(logps, mask);
  }
  return pairs;
}

}  // namespace reprise
