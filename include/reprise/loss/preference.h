// Preference losses on pairs of a chosen and a rejected response: DPO, its variants, and losses
// without a reference model.
//
// Per-token log-probabilities are first reduced to a few numbers per response, so the reference can
// also be given as precomputed sums. Everything is float32, or float64 if the input is. If policy
// and reference have the same weights, the log-ratios are exactly 0.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

/// Each with its name, which is TRL's if TRL has the loss. w is the chosen and l the rejected
/// response; lp is the sum and m the mean of a response's log-probabilities, s its log-ratio to the
/// reference; h = s_w - s_l, b = beta, e = label_smoothing, L(x) = -log sigmoid(x).
enum class PreferenceLoss : uint8_t {
  Sigmoid,   ///< sigmoid, dpo: (1-e) L(b h) + e L(-b h); e > 0 is cDPO (TRL ignores e here)
  Hinge,     ///< hinge: max(0, 1 - b h)
  Ipo,       ///< ipo: (s_w / length_w - s_l / length_l - 1/(2b))^2
  IpoSum,    ///< ipo_sum: (h - 1/(2b))^2, the IPO of OpenRLHF and of the DPO authors
  ExoPair,   ///< exo_pair: KL of [sigmoid(b h), sigmoid(-b h)] from [1-e, e]
  NcaPair,   ///< nca_pair: L(b s_w) + L(-b s_w)/2 + L(-b s_l)/2
  Robust,    ///< robust: ((1-e) L(b h) - e L(-b h)) / (1-2e), unbiased if a share e of labels is
             ///< wrong
  BcoPair,   ///< bco_pair: L(b s_w) + L(-b s_l)
  SppoHard,  ///< sppo_hard: (s_w - 1/(2b))^2 + (s_l + 1/(2b))^2
  Aot,  ///< aot: like sigmoid, h from lp_w - lp_l and its reference, each sorted over the batch
  AotUnpaired,  ///< aot_unpaired: like sigmoid, h from s_w and s_l, each sorted over the batch
  ApoZero,      ///< apo_zero: 1 - sigmoid(b s_w) + sigmoid(b s_l)
  ApoDown,      ///< apo_down: sigmoid(b s_w) + 1 - sigmoid(b h)
  DiscoPop,     ///< discopop: L(b h) and e^(-b h), blended by sigmoid(b h / tau)
  Sft,          ///< sft: cross entropy of the chosen responses, mean over tokens
  SigmoidNorm,  ///< sigmoid_norm: L(b (s_w / length_w - s_l / length_l))
  SimPo,        ///< simpo: L(b (m_w - m_l) - gamma) + cpo_alpha * cross entropy, smoothed by e
  AlphaPo,      ///< alphapo: SimPO without its cross entropy; see alphapo_alpha
  Cpo,          ///< cpo: L(b (lp_w - lp_l)) + cpo_alpha * cross entropy, smoothed by e
  Orpo,         ///< orpo: b L(difference of log odds of m) + cross entropy with the prompt
  OrpoToken,    ///< orpo_token: ColossalChat's, log odds of tokens, mean over those of the batch
};

/// Throws for an unknown name and lists the known ones.
REPRISE_API PreferenceLoss parse_preference_loss(std::string_view name);
REPRISE_API std::string_view name_of(PreferenceLoss loss);

/// The divergence that keeps the policy near the reference. The score of a log-ratio s is f'(e^s).
enum class FDivergence : uint8_t {
  ReverseKl,  ///< reverse_kl: s
  ForwardKl,  ///< forward_kl: 1 - e^-s
  Js,         ///< js_divergence: log 2 + log sigmoid(s)
  Alpha,      ///< alpha_divergence: (e^((a-1)s) - 1) / (a-1), with the exponent capped at 80
};

/// Throws for an unknown name and lists the known ones.
REPRISE_API FDivergence parse_f_divergence(std::string_view name);

struct PreferenceOptions {
  /// Losses with their weights; the result is the weighted sum.
  std::vector<std::pair<PreferenceLoss, double>> losses = {{PreferenceLoss::Sigmoid, 1.0}};
  double beta = 0.1;
  double label_smoothing = 0.0;
  double discopop_tau = 0.05;
  FDivergence f_divergence = FDivergence::ReverseKl;
  double f_alpha = 0.5;  ///< a of FDivergence::Alpha; 1 is the reverse KL
  /// LD-DPO: weight of the tokens beyond the length of the shorter response of the pair.
  std::optional<double> ld_alpha = {};
  bool use_weighting = false;  ///< WPO: weight pairs by their probability under the policy
  double simpo_gamma = 0.5;
  double cpo_alpha = 1.0;
  double alphapo_alpha = 0.0;   ///< AlphaPO: score (1 - e^(-a x)) / a instead of x; 0: x
  double nll_coef = 0.0;        ///< OpenRLHF: adds cross entropy of the chosen, mean over responses
  bool reference_free = false;  ///< assume a reference under which all responses are equally likely
};

/// Throws if an option is out of range, has no effect on these losses or is not defined for them.
REPRISE_API void validate(const PreferenceOptions& options);

REPRISE_API bool needs_reference(const PreferenceOptions& options);
/// Whether PairTokens needs log_sum_p2, or log-probabilities of the prompts with `attended`.
REPRISE_API bool needs_log_sum_p2(const PreferenceOptions& options);
REPRISE_API bool needs_prompt(const PreferenceOptions& options);

/// Per-token inputs, all (2B, T): B chosen rows, then the B rejected rows in the same order.
struct PairTokens {
  at::Tensor logps;            ///< log-probability of each token
  at::Tensor mask;             ///< nonzero for tokens of the response
  at::Tensor log_sum_p2 = {};  ///< log of the sum of squared probabilities
  at::Tensor attended = {};    ///< nonzero for tokens of prompt or response
};

/// Per-response inputs, (B) each unless noted. A reference needs only `chosen` and `rejected`.
struct PairLogps {
  at::Tensor chosen, rejected;  ///< sums of log-probabilities, weighted if ld_alpha is set
  at::Tensor chosen_lengths = {}, rejected_lengths = {};  ///< in tokens, floating point, at least 1
  at::Tensor weights = {};       ///< WPO weights, detached; undefined without log_sum_p2
  at::Tensor token_nll = {};     ///< scalar: cross entropy of the chosen, mean over tokens
  at::Tensor sequence_nll = {};  ///< scalar: the same, mean over responses of token means
  at::Tensor prompt_nll = {};    ///< scalar: the same with the prompt; undefined without attended
  at::Tensor token_log_odds =
      {};  ///< scalar, for OrpoToken: chosen minus rejected, means over tokens
};

/// Reduces per-token inputs of the policy or the reference to per-response inputs. Values outside
/// the responses may be anything, even NaN, and get gradient 0.
REPRISE_API PairLogps reduce_pairs(const PairTokens& tokens, const PreferenceOptions& options);

struct PreferenceResult {
  at::Tensor loss;                              ///< scalar: mean over pairs
  std::vector<at::Tensor> losses;               ///< each of options.losses alone, detached
  at::Tensor chosen_rewards, rejected_rewards;  ///< (B), detached: beta times the log-ratio
  at::Tensor nll = {};       ///< detached: the cross-entropy term, if the loss has one
  at::Tensor log_odds = {};  ///< detached mean, for Orpo and OrpoToken
};

/// `reference` may be empty unless needs_reference(options). Losses without a reference report as
/// rewards beta times what they compare: mean log-probabilities for SimPo, AlphaPo, Orpo and
/// OrpoToken, sums otherwise.
REPRISE_API PreferenceResult preference_loss(const PairLogps& policy,
                                             const PairLogps& reference,
                                             const PreferenceOptions& options);

}  // namespace reprise
