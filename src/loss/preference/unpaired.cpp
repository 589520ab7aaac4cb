// Desirable and undesirable responses share one formula, so the batch is never split.
#include <reprise/loss/unpaired.h>

#include "loss/enum_names.h"
#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

namespace reprise {

namespace {

constexpr std::array<EnumName<UnpairedLoss>, 3> kUnpairedLosses = {
    {{"kto", UnpairedLoss::Kto},
     {"apo_zero_unpaired", UnpairedLoss::ApoZero},
     {"kto_even", UnpairedLoss::KtoEven}}};

void check_sums(const at::Tensor& policy, const at::Tensor& reference, const char* what) {
  TORCH_CHECK(policy.defined() && reference.defined() && policy.dim() == 1 && policy.numel() > 0 &&
                  reference.sizes() == policy.sizes(),
              "[kto] expected log-probabilities of ",
              what,
              " under policy and reference, (B) each with B > 0",
              policy.defined() && reference.defined()
                  ? c10::str(", found ", policy.sizes(), " and ", reference.sizes())
                  : std::string());
}

at::Tensor log_ratios_of(const at::Tensor& policy, const at::Tensor& reference) {
  const auto values = upcast(policy);
  return values - reference.to(values.options());
}

// z of each response for KtoEven: the mean log-ratio of the other kind.
at::Tensor opposite_kl(const at::Tensor& log_ratios, const at::Tensor& desirable) {
  const auto of_desirable = log_ratios.masked_select(desirable);
  const auto of_undesirable = log_ratios.masked_select(~desirable);
  TORCH_CHECK(
      of_desirable.numel() > 0 && of_undesirable.numel() > 0,
      "[kto] kto_even compares the desirable with the undesirable responses of a batch, and "
      "this one has ",
      of_desirable.numel(),
      " and ",
      of_undesirable.numel(),
      ". Use larger batches, or kto");
  return at::where(desirable, of_undesirable.mean().clamp_min(0), of_desirable.mean().clamp_min(0));
}

at::Tensor kl_of(const at::Tensor& log_ratios,
                 const at::Tensor& desirable,
                 const at::Tensor& kl,
                 const UnpairedOptions& options) {
  switch (options.loss) {
    case UnpairedLoss::ApoZero:
      return at::zeros({}, log_ratios.options());
    case UnpairedLoss::KtoEven:
      return opposite_kl(log_ratios, desirable);
    case UnpairedLoss::Kto:
      TORCH_CHECK(kl.defined() && kl.numel() == 1,
                  "[kto] kto needs kl, a scalar from mismatched_kl()");
      return kl.detach().to(log_ratios.options()).reshape({}).clamp_min(0);
  }
  TORCH_INTERNAL_ASSERT(false, "no such unpaired loss");
}

}  // namespace

UnpairedLoss parse_unpaired_loss(std::string_view name) {
  return parse_enum<UnpairedLoss>("loss_type", name, kUnpairedLosses);
}

void validate(const UnpairedOptions& options) {
  TORCH_CHECK(options.beta > 0 && std::isfinite(options.beta),
              "[kto] beta must be positive, found ",
              options.beta);
  for (const double weight : {options.desirable_weight, options.undesirable_weight}) {
    TORCH_CHECK(
        weight >= 0 && std::isfinite(weight), "[kto] weights must not be negative, found ", weight);
  }
  TORCH_CHECK(options.desirable_weight > 0 || options.undesirable_weight > 0,
              "[kto] with both weights at 0 nothing is learned");
}

bool needs_kl(const UnpairedOptions& options) {
  return options.loss == UnpairedLoss::Kto;
}

at::Tensor mismatched_kl(const at::Tensor& policy, const at::Tensor& reference) {
  check_sums(policy, reference, "mismatched responses");
  return log_ratios_of(policy.detach(), reference.detach()).mean();
}

UnpairedResult unpaired_loss(const at::Tensor& policy,
                             const at::Tensor& reference,
                             const at::Tensor& desirable,
                             const at::Tensor& kl,
                             const UnpairedOptions& options) {
  validate(options);
  check_sums(policy, reference, "responses");
  TORCH_CHECK(desirable.defined() && desirable.sizes() == policy.sizes() &&
                  desirable.scalar_type() == at::kBool,
              "[kto] expected a bool for each response, whether it is desirable");
  const auto log_ratios = log_ratios_of(policy, reference);
  const auto z = kl_of(log_ratios, desirable, kl, options);

  // Undesirable responses only flip the sign.
  const auto advantage = log_ratios - z;
  const auto values = 1 - at::sigmoid(options.beta * at::where(desirable, advantage, -advantage));
  const auto weights = at::where(desirable, options.desirable_weight, options.undesirable_weight);

  const auto rewards = options.beta * log_ratios.detach();
  return {.loss = (weights * values).mean(),
          .desirable_rewards = rewards.masked_select(desirable),
          .undesirable_rewards = rewards.masked_select(~desirable),
          .kl = z.detach().mean()};
}

}  // namespace reprise
