// Notation as in the header: s is a log-ratio, h a difference of two, e the label smoothing.
#include <reprise/loss/preference.h>

#include "loss/preference/preference_traits.h"
#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <tuple>

namespace reprise {

namespace {

// float32 overflows above e^88.
constexpr double kLargestExponent = 80.0;
// Cap for mean log-probabilities: a response of probability 1 would have infinite odds.
constexpr double kLargestMeanLogp = -1e-7;

struct Pair {
  at::Tensor chosen, rejected;

  at::Tensor difference() const { return chosen - rejected; }
};

Pair divided(const Pair& values, const PairLogps& lengths) {
  return {values.chosen / lengths.chosen_lengths, values.rejected / lengths.rejected_lengths};
}

at::Tensor logistic(const at::Tensor& x) {
  return -at::log_sigmoid(x);
}

at::Tensor smoothed_logistic(const at::Tensor& x, double e) {
  return e == 0 ? logistic(x) : (1 - e) * logistic(x) + e * logistic(-x);
}

at::Tensor sorted(const at::Tensor& values) {
  return std::get<0>(values.sort());
}

at::Tensor score(const at::Tensor& s, const PreferenceOptions& options) {
  switch (options.f_divergence) {
    case FDivergence::ReverseKl:
      return s;
    case FDivergence::ForwardKl:
      return 1 - (-s).exp();
    case FDivergence::Js:
      return std::numbers::ln2 + at::log_sigmoid(s);
    case FDivergence::Alpha: {
      const double a = options.f_alpha - 1;
      // At a = 1 the formula is 0 / 0; its limit is the log-ratio itself.
      return std::abs(a) < 1e-6 ? s : ((a * s).clamp_max(kLargestExponent).exp() - 1) / a;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no such divergence");
}

at::Tensor exo_pair(const at::Tensor& x, double e) {
  return at::sigmoid(x) * (at::log_sigmoid(x) - std::log1p(-e)) +
         at::sigmoid(-x) * (at::log_sigmoid(-x) - std::log(e));
}

at::Tensor discopop(const at::Tensor& x, double tau) {
  const auto exponential_share = at::sigmoid(x / tau);
  return logistic(x) * (1 - exponential_share) + (-x).exp() * exponential_share;
}

struct Comparison {
  const PairLogps& policy;
  Pair reference;  // zeros without a reference
  Pair log_ratios;
  Pair scores;
};

// Returns (B), or a scalar for Sft.
at::Tensor pair_losses(PreferenceLoss loss, const Comparison& c, const PreferenceOptions& options) {
  using enum PreferenceLoss;
  const double beta = options.beta;
  const double e = options.label_smoothing;
  const auto x = beta * c.scores.difference();
  const auto x_chosen = beta * c.log_ratios.chosen;
  const auto x_rejected = beta * c.log_ratios.rejected;
  switch (loss) {
    case Sigmoid:
      return smoothed_logistic(x, e);
    case Hinge:
      return (1 - x).clamp_min(0);
    case Ipo:
      return (divided(c.scores, c.policy).difference() - 1 / (2 * beta)).square();
    case IpoSum:
      return (c.scores.difference() - 1 / (2 * beta)).square();
    case SigmoidNorm:
      return logistic(beta * divided(c.scores, c.policy).difference());
    case ExoPair:
      return exo_pair(x, e);
    case Robust:
      return ((1 - e) * logistic(x) - e * logistic(-x)) / (1 - 2 * e);
    case NcaPair:
      return logistic(x_chosen) + 0.5 * logistic(-x_chosen) + 0.5 * logistic(-x_rejected);
    case BcoPair:
      return logistic(x_chosen) + logistic(-x_rejected);
    case SppoHard:
      return (c.log_ratios.chosen - 0.5 / beta).square() +
             (c.log_ratios.rejected + 0.5 / beta).square();
    case Aot:
      return smoothed_logistic(
          beta * (sorted(c.policy.chosen - c.policy.rejected) - sorted(c.reference.difference())),
          e);
    case AotUnpaired:
      return smoothed_logistic(beta * (sorted(c.log_ratios.chosen) - sorted(c.log_ratios.rejected)),
                               e);
    case ApoZero:
      return (1 - at::sigmoid(x_chosen)) + at::sigmoid(x_rejected);
    case ApoDown:
      return at::sigmoid(x_chosen) + (1 - at::sigmoid(x_chosen - x_rejected));
    case DiscoPop:
      return discopop(x, options.discopop_tau);
    case Sft:
      return c.policy.token_nll;
    case SimPo:
    case AlphaPo:
    case Cpo:
    case Orpo:
    case OrpoToken:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, name_of(loss), " is not a sum over pairs");
}

PreferenceResult weighted_sum(const PairLogps& policy,
                              const PairLogps& reference,
                              const PreferenceOptions& options) {
  Comparison c{.policy = policy, .reference = {}, .log_ratios = {}, .scores = {}};
  if (needs_reference(options)) {
    c.reference = {reference.chosen.to(policy.chosen.options()),
                   reference.rejected.to(policy.chosen.options())};
  } else {
    const auto none = at::zeros_like(policy.chosen);
    c.reference = {none, none};
  }
  c.log_ratios = {policy.chosen - c.reference.chosen, policy.rejected - c.reference.rejected};
  c.scores = {score(c.log_ratios.chosen, options), score(c.log_ratios.rejected, options)};

  PreferenceResult result;
  result.chosen_rewards = options.beta * c.log_ratios.chosen.detach();
  result.rejected_rewards = options.beta * c.log_ratios.rejected.detach();
  for (const auto& [loss, weight] : options.losses) {
    auto values = pair_losses(loss, c, options);
    if (options.use_weighting) {
      values = values * policy.weights;
    }
    const auto mean = values.mean();
    result.losses.push_back(mean.detach());
    result.loss = result.loss.defined() ? result.loss + weight * mean : weight * mean;
  }
  if (options.nll_coef > 0) {
    result.loss = result.loss + options.nll_coef * policy.sequence_nll;
    result.nll = policy.sequence_nll.detach();
  }
  return result;
}

at::Tensor log_odds(const at::Tensor& mean_logps) {
  const auto m = mean_logps.clamp_max(kLargestMeanLogp);
  return m - (-at::expm1(m)).log();
}

at::Tensor alphapo_score(const at::Tensor& values, double alpha) {
  return alpha == 0 ? values : (1 - (-alpha * values).exp()) / alpha;
}

// Losses that are complete objectives and need no reference.
PreferenceResult objective(PreferenceLoss loss,
                           const PairLogps& policy,
                           const PreferenceOptions& options) {
  const auto uses = traits_of(loss);
  const Pair sums{policy.chosen, policy.rejected};
  const Pair compared = uses.mean_logps ? divided(sums, policy) : sums;
  const Pair scores{alphapo_score(compared.chosen, options.alphapo_alpha),
                    alphapo_score(compared.rejected, options.alphapo_alpha)};
  PreferenceResult result;
  result.chosen_rewards = options.beta * scores.chosen.detach();
  result.rejected_rewards = options.beta * scores.rejected.detach();
  if (uses.prompt) {
    const auto odds = loss == PreferenceLoss::OrpoToken
                          ? policy.token_log_odds
                          : log_odds(compared.chosen) - log_odds(compared.rejected);
    result.loss = policy.prompt_nll + options.beta * logistic(odds).mean();
    result.nll = policy.prompt_nll.detach();
    result.log_odds = odds.detach().mean();
  } else {
    const auto x = options.beta * scores.difference() - (uses.margin ? options.simpo_gamma : 0.0);
    result.loss = smoothed_logistic(x, options.label_smoothing).mean();
    if (uses.cpo_alpha && options.cpo_alpha > 0) {
      result.loss = result.loss + options.cpo_alpha * policy.token_nll;
      result.nll = policy.token_nll.detach();
    }
  }
  result.losses = {result.loss.detach()};
  return result;
}

void check_sums(const PairLogps& pairs, const PairLogps& policy, const char* whose) {
  TORCH_CHECK(pairs.chosen.defined() && pairs.rejected.defined() && pairs.chosen.dim() == 1 &&
                  pairs.chosen.numel() > 0 && pairs.chosen.sizes() == policy.chosen.sizes() &&
                  pairs.rejected.sizes() == policy.chosen.sizes(),
              "[preference] expected the ",
              whose,
              "'s log-probabilities of chosen and rejected responses, (B) each",
              pairs.chosen.defined() && policy.chosen.defined()
                  ? c10::str(", found ", pairs.chosen.sizes(), " for ", policy.chosen.sizes())
                  : std::string());
}

void check(const PairLogps& policy, const PairLogps& reference, const PreferenceOptions& options) {
  check_sums(policy, policy, "policy");
  if (needs_reference(options)) {
    check_sums(reference, policy, "reference");
  }
  TORCH_CHECK(policy.chosen_lengths.defined() && policy.rejected_lengths.defined() &&
                  policy.token_nll.defined() && policy.sequence_nll.defined(),
              "[preference] the inputs of the policy must come from reduce_pairs");
  TORCH_CHECK(!needs_log_sum_p2(options) || policy.weights.defined(),
              "[preference] use_weighting needs PairTokens::log_sum_p2 of the policy");
  TORCH_CHECK(!needs_prompt(options) || policy.prompt_nll.defined(),
              "[preference] orpo needs log-probabilities of the prompts too, and "
              "PairTokens::attended");
}

}  // namespace

PreferenceResult preference_loss(const PairLogps& policy,
                                 const PairLogps& reference,
                                 const PreferenceOptions& options) {
  validate(options);
  check(policy, reference, options);
  const auto& [loss, weight] = options.losses.front();
  if (!traits_of(loss).is_objective) {
    return weighted_sum(policy, reference, options);
  }
  auto result = objective(loss, policy, options);
  result.loss = weight * result.loss;
  return result;
}

}  // namespace reprise
