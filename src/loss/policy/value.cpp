// Clipped squared error of values, and explained variance.
#include <reprise/loss/value.h>

#include "loss/masked.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise {

namespace {

at::Tensor checked_mask_of(const ValueBatch& batch, const ValueOptions& options) {
  const auto mask =
      checked_mask("value", batch.mask, {{"values", batch.values}, {"returns", batch.returns}});
  if (options.clip) {
    checked_mask(
        "value", batch.mask, {{"old values, which clip compares with,", batch.old_values}});
  }
  return mask;
}

// Biased variance inside the mask.
at::Tensor variance(const at::Tensor& values, const at::Tensor& mask, const at::Tensor& count) {
  const auto mean = values.sum() / count;
  return (values - mean).masked_fill(~mask, 0).square().sum() / count;
}

}  // namespace

void validate(const ValueOptions& options) {
  TORCH_CHECK(!options.clip || (*options.clip > 0 && std::isfinite(*options.clip)),
              "[value] clip must be positive, found ",
              options.clip.value_or(0),
              ". Omit it for a loss without clipping");
  TORCH_CHECK(options.coefficient > 0 && std::isfinite(options.coefficient),
              "[value] the coefficient must be positive, found ",
              options.coefficient);
}

ValueResult value_loss(const ValueBatch& batch, double step_tokens, const ValueOptions& options) {
  validate(options);
  TORCH_CHECK(step_tokens >= 0, "[value] step_tokens must not be negative, found ", step_tokens);
  const auto mask = checked_mask_of(batch, options);
  const auto values = masked(batch.values, mask);
  const auto returns = masked(batch.returns.detach(), mask).to(values.options());
  auto errors = (values - returns).square();
  const auto count = mask.sum().to(values.scalar_type());

  ValueResult result;
  result.metrics.push_back({"val/error", errors.detach().sum(), count});
  if (options.clip) {
    const auto old = masked(batch.old_values.detach(), mask).to(values.options());
    const auto clipped = old + (values - old).clamp(-*options.clip, *options.clip);
    const auto clipped_errors = (clipped - returns).square();
    const auto is_clipped = clipped_errors.detach() > errors.detach();
    result.metrics.push_back({"val/clipfrac", is_clipped.sum().to(values.scalar_type()), count});
    errors = at::maximum(errors, clipped_errors);
  }
  result.part = options.coefficient * 0.5 / std::max(step_tokens, 1.0) * errors.sum();
  return result;
}

at::Tensor explained_variance(const at::Tensor& values,
                              const at::Tensor& returns,
                              const at::Tensor& mask) {
  const auto is_token = checked_mask("value", mask, {{"values", values}, {"returns", returns}});
  const auto r = masked(returns.detach(), is_token);
  const auto errors = r - masked(values.detach(), is_token).to(r.options());
  const auto count = is_token.sum().clamp_min(1).to(r.scalar_type());
  const auto total = variance(r, is_token, count);
  // Not total > 0: rounding can give equal returns a tiny variance.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto differ =
      r.masked_fill(~is_token, -infinity).amax() > r.masked_fill(~is_token, infinity).amin();
  return at::where(
      differ, 1 - variance(errors, is_token, count) / total, at::zeros({}, r.options()));
}

}  // namespace reprise
