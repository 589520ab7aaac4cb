// Names and traits of the preference losses.
#include "loss/preference/preference_traits.h"

#include "loss/enum_names.h"

#include <algorithm>
#include <array>

namespace reprise {

namespace {

using enum PreferenceLoss;

constexpr std::array<EnumName<PreferenceLoss>, 22> kPreferenceLosses = {
    {{"sigmoid", Sigmoid},
     {"dpo", Sigmoid},
     {"hinge", Hinge},
     {"ipo", Ipo},
     {"ipo_sum", IpoSum},
     {"exo_pair", ExoPair},
     {"nca_pair", NcaPair},
     {"robust", Robust},
     {"bco_pair", BcoPair},
     {"sppo_hard", SppoHard},
     {"aot", Aot},
     {"aot_unpaired", AotUnpaired},
     {"apo_zero", ApoZero},
     {"apo_down", ApoDown},
     {"discopop", DiscoPop},
     {"sft", Sft},
     {"sigmoid_norm", SigmoidNorm},
     {"simpo", SimPo},
     {"alphapo", AlphaPo},
     {"cpo", Cpo},
     {"orpo", Orpo},
     {"orpo_token", OrpoToken}}};

constexpr std::array<EnumName<FDivergence>, 6> kDivergences = {
    {{"reverse_kl", FDivergence::ReverseKl},
     {"forward_kl", FDivergence::ForwardKl},
     {"js_divergence", FDivergence::Js},
     {"js", FDivergence::Js},
     {"alpha_divergence", FDivergence::Alpha},
     {"alpha", FDivergence::Alpha}}};

}  // namespace

PreferenceLossTraits traits_of(PreferenceLoss loss) {
  switch (loss) {
    case Sigmoid:
    case ExoPair:
    case Robust:
      return {.smoothing = true};
    case Aot:
    case AotUnpaired:
      return {.sorts = true, .smoothing = true};
    case Hinge:
    case Ipo:
    case IpoSum:
    case DiscoPop:
    case SigmoidNorm:
      return {};
    case NcaPair:
    case BcoPair:
    case SppoHard:
    case ApoZero:
    case ApoDown:
      return {.difference = false};
    case Sft:
      return {.reference = false};
    case SimPo:
      return {.reference = false,
              .smoothing = true,
              .is_objective = true,
              .cpo_alpha = true,
              .margin = true,
              .mean_logps = true};
    case AlphaPo:
      return {.reference = false,
              .smoothing = true,
              .is_objective = true,
              .margin = true,
              .mean_logps = true};
    case Cpo:
      return {.reference = false, .smoothing = true, .is_objective = true, .cpo_alpha = true};
    case Orpo:
    case OrpoToken:
      return {.reference = false, .is_objective = true, .mean_logps = true, .prompt = true};
  }
  TORCH_INTERNAL_ASSERT(false, "no such preference loss");
}

bool any_has(const PreferenceOptions& options, bool PreferenceLossTraits::*trait) {
  return std::any_of(options.losses.begin(), options.losses.end(), [&](const auto& entry) {
    return traits_of(entry.first).*trait;
  });
}

PreferenceLoss parse_preference_loss(std::string_view name) {
  return parse_enum<PreferenceLoss>("loss_type", name, kPreferenceLosses);
}

std::string_view name_of(PreferenceLoss loss) {
  return enum_name<PreferenceLoss>(loss, kPreferenceLosses);
}

FDivergence parse_f_divergence(std::string_view name) {
  return parse_enum<FDivergence>("f_divergence_type", name, kDivergences);
}

bool needs_reference(const PreferenceOptions& options) {
  return !options.reference_free && any_has(options, &PreferenceLossTraits::reference);
}

bool needs_log_sum_p2(const PreferenceOptions& options) {
  return options.use_weighting;
}

bool needs_prompt(const PreferenceOptions& options) {
  return any_has(options, &PreferenceLossTraits::prompt);
}

}  // namespace reprise
