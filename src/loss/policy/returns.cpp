// Per-token rewards, and penalties on scores for length or a missing EOS.
#include <reprise/loss/returns.h>

#include "loss/enum_names.h"
#include "loss/masked.h"
#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

namespace reprise {

namespace {

constexpr std::array<EnumName<ScorePlace>, 2> kPlaces = {
    {{"last_token", ScorePlace::LastToken}, {"every_token", ScorePlace::EveryToken}}};

// Returns scores (B) in float32. Throws unless `others` has one value per score.
at::Tensor checked_scores(const at::Tensor& scores, const at::Tensor& others, const char* what) {
  TORCH_CHECK(
      scores.defined() && scores.dim() == 1 && others.defined() && others.sizes() == scores.sizes(),
      "[reward] expected scores (B) and ",
      what,
      " of each completion");
  return upcast(scores.detach());
}

// (B, T) bool: true at the last token of each row, all false for an empty row.
at::Tensor last_tokens(const at::Tensor& mask) {
  const auto next = at::constant_pad_nd(mask.slice(1, 1), {0, 1}, 0);
  return mask & ~next;
}

}  // namespace

ScorePlace parse_score_place(std::string_view name) {
  return parse_enum<ScorePlace>("score_place", name, kPlaces);
}

void validate(const TokenRewardOptions& options) {
  TORCH_CHECK(options.kl_coef >= 0 && std::isfinite(options.kl_coef),
              "[reward] kl_coef must not be negative, found ",
              options.kl_coef);
  if (const auto& clip = options.score_clip) {
    TORCH_CHECK(clip->first < clip->second,
                "[reward] score_clip must be a range, found [",
                clip->first,
                ", ",
                clip->second,
                "]");
  }
}

at::Tensor token_rewards(const at::Tensor& scores,
                         const at::Tensor& kl,
                         const at::Tensor& mask,
                         const TokenRewardOptions& options) {
  validate(options);
  const auto is_token = checked_mask("reward", mask, {});
  TORCH_CHECK(scores.defined() && scores.dim() == 1 && scores.size(0) == mask.size(0),
              "[reward] expected a score for each of ",
              mask.size(0),
              " completions");
  auto values = upcast(scores.detach());
  if (options.score_clip) {
    values = values.clamp(options.score_clip->first, options.score_clip->second);
  }
  const auto places = options.place == ScorePlace::LastToken ? last_tokens(is_token) : is_token;
  // Not a product: the score of an ignored row may be NaN.
  auto rewards = at::where(places, values.unsqueeze(1), at::zeros({}, values.options()));
  if (options.kl_coef > 0) {
    checked_mask("reward", mask, {{"KL estimates", kl}});
    rewards = rewards - options.kl_coef * masked(kl.detach(), is_token);
  }
  return rewards;
}

at::Tensor with_missing_eos_penalty(const at::Tensor& scores,
                                    const at::Tensor& is_finished,
                                    double penalty) {
  TORCH_CHECK(penalty >= 0 && std::isfinite(penalty),
              "[reward] missing_eos_penalty is subtracted and must not be negative, found ",
              penalty);
  const auto values = checked_scores(scores, is_finished, "whether it is finished");
  return at::where(is_finished.to(at::kBool), values, values - penalty);
}

void validate(const OverlongPenalty& penalty) {
  TORCH_CHECK(penalty.buffer > 0 && penalty.buffer <= penalty.max_length,
              "[reward] the overlong buffer must be between 1 and max_length, ",
              penalty.max_length,
              " tokens; found ",
              penalty.buffer);
  TORCH_CHECK(penalty.factor > 0 && std::isfinite(penalty.factor),
              "[reward] the overlong penalty factor must be positive, found ",
              penalty.factor);
}

at::Tensor with_overlong_penalty(const at::Tensor& scores,
                                 const at::Tensor& lengths,
                                 const OverlongPenalty& penalty) {
  validate(penalty);
  const auto values = checked_scores(scores, lengths, "the length");
  const auto exceeding = (lengths.to(values.options()) - (penalty.max_length - penalty.buffer))
                             .clamp(0, penalty.buffer);
  return values - exceeding / penalty.buffer * penalty.factor;
}

}  // namespace reprise
