// KL estimators and the adaptive controller of the KL coefficient.
#include <reprise/loss/kl.h>

#include "loss/enum_names.h"
#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace reprise {

namespace {

constexpr std::array<EnumName<KlEstimator>, 3> kKlEstimators = {
    {{"k1", KlEstimator::K1}, {"k2", KlEstimator::K2}, {"k3", KlEstimator::K3}}};

// Largest relative change of the coefficient within one horizon.
constexpr double kLargestError = 0.2;

at::Tensor estimate(const at::Tensor& d, KlEstimator estimator) {
  switch (estimator) {
    case KlEstimator::K1:
      return d;
    case KlEstimator::K2:
      return d.square() / 2;
    case KlEstimator::K3:
      return at::expm1(-d) + d;
  }
  TORCH_INTERNAL_ASSERT(false, "no such estimator");
}

}  // namespace

KlEstimator parse_kl_estimator(std::string_view name) {
  return parse_enum<KlEstimator>("kl_estimator", name, kKlEstimators);
}

at::Tensor kl_estimate(const at::Tensor& logprobs,
                       const at::Tensor& reference,
                       KlEstimator estimator,
                       std::optional<double> clamp) {
  TORCH_CHECK(logprobs.defined() && reference.defined() && logprobs.sizes() == reference.sizes(),
              "[kl] expected log-probabilities of policy and reference with the same shape");
  TORCH_CHECK(!clamp || *clamp > 0, "[kl] clamp must be positive, found ", *clamp);
  const auto values = upcast(logprobs);
  const auto kl = estimate(values - reference.to(values.options()), estimator);
  return clamp ? kl.clamp(-*clamp, *clamp) : kl;
}

void AdaptiveKl::validate() const {
  TORCH_CHECK(value >= 0 && std::isfinite(value),
              "[kl] the coefficient must not be negative, found ",
              value);
  TORCH_CHECK(target > 0 && std::isfinite(target),
              "[kl] the target KL must be positive, found ",
              target,
              ". Omit it for a fixed coefficient");
  TORCH_CHECK(horizon > 0 && std::isfinite(horizon),
              "[kl] the horizon must be a positive number of samples, found ",
              horizon);
}

void AdaptiveKl::update(double current, int64_t samples) {
  if (!std::isfinite(current)) {
    return;
  }
  const double error = std::clamp(current / target - 1, -kLargestError, kLargestError);
  value *= 1 + error * static_cast<double>(samples) / horizon;
}

}  // namespace reprise
