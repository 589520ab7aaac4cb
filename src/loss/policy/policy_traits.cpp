// Names and traits of the policy losses.
#include "loss/policy/policy_traits.h"

#include "loss/enum_names.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise {

namespace {

using enum PolicyLoss;

constexpr std::array<EnumName<PolicyLoss>, 10> kLosses = {{{"grpo", Grpo},
                                                           {"bnpo", Bnpo},
                                                           {"dr_grpo", DrGrpo},
                                                           {"dapo", Dapo},
                                                           {"luspo", Luspo},
                                                           {"cispo", Cispo},
                                                           {"sapo", Sapo},
                                                           {"vespo", Vespo},
                                                           {"ppo", Ppo},
                                                           {"rloo", Rloo}}};

constexpr std::array<EnumName<RatioLevel>, 2> kLevels = {
    {{"token", RatioLevel::Token}, {"sequence", RatioLevel::Sequence}}};

constexpr std::array<EnumName<MismatchCorrection>, 8> kCorrections = {
    {{"none", MismatchCorrection::None},
     {"token_truncate", MismatchCorrection::TokenTruncate},
     {"tis", MismatchCorrection::TokenTruncate},
     {"token_mask", MismatchCorrection::TokenMask},
     {"icepop", MismatchCorrection::TokenMask},
     {"sequence_truncate", MismatchCorrection::SequenceTruncate},
     {"sequence_mask", MismatchCorrection::SequenceMask},
     {"seq-mask-tis", MismatchCorrection::GeometricMask}}};

}  // namespace

PolicyLossTraits traits_of(PolicyLoss loss) {
  switch (loss) {
    case Grpo:
    case Bnpo:
    case DrGrpo:
    case Dapo:
    case Luspo:
      return {};
    case Cispo:
    case Sapo:
      return {.clip = false, .delta = false};
    case Vespo:
      return {.clip = false, .delta = false, .sequence_level = false};
    case Ppo:
      return {.delta = false, .sequence_level = false};
    case Rloo:
      return {.delta = false, .sequence_level = false, .tokens = false};
  }
  TORCH_INTERNAL_ASSERT(false, "no such policy loss");
}

double upper_epsilon(const PolicyOptions& options) {
  return options.epsilon_high.value_or(options.epsilon);
}

PolicyLoss parse_policy_loss(std::string_view name) {
  return parse_enum<PolicyLoss>("loss_type", name, kLosses);
}

RatioLevel parse_ratio_level(std::string_view name) {
  return parse_enum<RatioLevel>("importance_sampling_level", name, kLevels);
}

MismatchCorrection parse_mismatch_correction(std::string_view name) {
  return parse_enum<MismatchCorrection>("importance_sampling_correction", name, kCorrections);
}

std::string_view name_of(PolicyLoss loss) {
  return enum_name<PolicyLoss>(loss, kLosses);
}

bool needs_reference(const PolicyOptions& options) {
  return options.beta > 0;
}

bool needs_entropy(const PolicyOptions& options) {
  return options.entropy_coef > 0 || options.top_entropy_quantile < 1;
}

bool needs_sampling(const PolicyOptions& options) {
  return options.mismatch != MismatchCorrection::None;
}

}  // namespace reprise
