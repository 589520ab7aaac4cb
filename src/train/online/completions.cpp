#include "train/online/completions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {

namespace {

double mean_of(const at::Tensor& values) {
  return values.numel() == 0 ? std::nan("") : values.nanmean().item<double>();
}

double deviation_of(const at::Tensor& values) {
  const auto known = values.masked_select(values.isnan().logical_not());
  return known.numel() < 2 ? 0 : known.std().item<double>();
}

// JSON has no NaN and no infinity.
Json number(const at::Tensor& value) {
  const auto plain = value.item<double>();
  return std::isfinite(plain) ? Json(plain) : Json();
}

}  // namespace

int64_t Completions::group_size() const {
  return std::ssize(rows) / std::max<int64_t>(1, std::ssize(prompts));
}

void Completions::append_groups(Completions& from, const std::vector<int64_t>& groups) {
  const int64_t size = from.group_size();
  std::vector<int64_t> chosen;
  for (const int64_t group : groups) {
    for (int64_t i = group * size; i < (group + 1) * size; ++i) {
      rows.push_back(std::move(from.rows[static_cast<size_t>(i)]));
      texts.push_back(std::move(from.texts[static_cast<size_t>(i)]));
      chosen.push_back(i);
    }
    prompts.push_back(std::move(from.prompts[static_cast<size_t>(group)]));
  }
  const auto index = at::tensor(chosen, at::kLong);
  for (auto member : {&Completions::finished, &Completions::rewards, &Completions::combined}) {
    const auto more = (from.*member).index_select(0, index);
    this->*member = (this->*member).defined() ? at::cat({this->*member, more}) : more;
  }
}

void Completions::write_metrics(const RewardList& sources,
                                const std::string& prefix,
                                Json& metrics) const {
  const auto put = [&](const std::string& name, double value) {
    if (std::isfinite(value)) {
      metrics[prefix + name] = value;
    }
  };
  put("reward", mean_of(combined));
  if (group_size() > 1) {
    const auto signal = group_signal(combined, group_size());
    put("reward_std", mean_of(signal.deviations));
    put("frac_reward_zero_std", 1 - signal.has_signal.to(at::kFloat).mean().item<double>());
  } else {
    put("reward_std", deviation_of(combined));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto own = rewards.select(1, static_cast<int64_t>(i));
    const std::string name = "rewards/" + sources.names()[i];
    put(name + "/mean", mean_of(own));
    put(name + "/std", deviation_of(own));
  }
  std::vector<int64_t> counts;
  counts.reserve(rows.size());
  for (const auto& row : rows) {
    counts.push_back(std::ssize(row.completion));
  }
  const auto lengths = at::tensor(counts, at::kLong).to(at::kDouble);
  put("completions/mean_length", lengths.mean().item<double>());
  put("completions/min_length", lengths.min().item<double>());
  put("completions/max_length", lengths.max().item<double>());
  put("completions/clipped_ratio", 1 - finished.to(at::kDouble).mean().item<double>());
  const auto terminated = lengths.masked_select(finished);
  const auto or_zero = terminated.numel() > 0 ? terminated : at::zeros({1}, at::kDouble);
  put("completions/mean_terminated_length", or_zero.mean().item<double>());
  put("completions/min_terminated_length", or_zero.min().item<double>());
  put("completions/max_terminated_length", or_zero.max().item<double>());
}

std::vector<Json> Completions::samples(const RewardList& sources,
                                       const PromptSet& from,
                                       const at::Tensor& advantages,
                                       int64_t count) const {
  const auto first = advantages.dim() == 1 ? advantages : advantages.select(1, 0);
  std::vector<Json> samples;
  for (int64_t i = 0; i < std::min(count, std::ssize(rows)); ++i) {
    const auto& prompt = prompts[static_cast<size_t>(i / group_size())];
    Json own = Json::object();
    for (size_t k = 0; k < sources.size(); ++k) {
      own[sources.names()[k]] = number(rewards[i][static_cast<int64_t>(k)]);
    }
    samples.push_back({{"row", from.location_name(prompt.location)},
                       {"prompt", prompt.text},
                       {"completion", texts[static_cast<size_t>(i)]},
                       {"is_finished", finished[i].item<bool>()},
                       {"rewards", own},
                       {"reward", number(combined[i])},
                       {"advantage", number(first[i])}});
  }
  return samples;
}

void PhaseCosts::write_to(Json& metrics) const {
  metrics["rollout_ms"] = rollout_ms;
  metrics["scoring_ms"] = scoring_ms;
  if (rollout_ms > 0) {
    metrics["rollout_tokens_per_second"] = static_cast<double>(rollout_tokens) / rollout_ms * 1000;
  }
  metrics["rollout_peak_bytes"] = rollout_peak;
  metrics["scoring_peak_bytes"] = scoring_peak;
}

}  // namespace reprise
