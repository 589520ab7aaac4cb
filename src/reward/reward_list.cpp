// Calls one source after the other and checks what it returns.
#include <reprise/reward/reward_list.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {
namespace {

/// A name that is not used yet.
std::string free_name(const std::string& name, const std::vector<std::string>& taken) {
  std::string candidate = name;
  for (int number = 2; std::find(taken.begin(), taken.end(), candidate) != taken.end(); ++number) {
    candidate = name + "_" + std::to_string(number);
  }
  return candidate;
}

}  // namespace

RewardList::RewardList(std::vector<WeightedReward> sources)
    : sources_(std::move(sources)),
      has_scored_(sources_.size(), false),
      requested_(sources_.size(), 0) {
  TORCH_CHECK(!sources_.empty(), "[reward] expected at least one reward source");
  for (const WeightedReward& reward : sources_) {
    TORCH_CHECK(reward.source != nullptr && std::isfinite(reward.weight),
                "[reward] expected a source and a finite weight, found ",
                reward.weight);
    names_.push_back(free_name(reward.source->name(), names_));
  }
}

std::vector<double> RewardList::weights() const {
  std::vector<double> weights;
  weights.reserve(sources_.size());
  for (const WeightedReward& reward : sources_) {
    weights.push_back(reward.weight);
  }
  return weights;
}

std::vector<const Model*> RewardList::models() const {
  std::vector<const Model*> models;
  for (const WeightedReward& reward : sources_) {
    if (const Model* model = reward.source->model()) {
      models.push_back(model);
    }
  }
  return models;
}

void RewardList::check(const Json& row) const {
  for (const WeightedReward& reward : sources_) {
    reward.source->check(row);
  }
}

std::vector<double> RewardList::score_with(size_t source, std::span<const RewardRequest> requests) {
  std::vector<double> rewards = sources_[source].source->score(requests);
  TORCH_CHECK(rewards.size() == requests.size(),
              "[reward] ",
              names_[source],
              ": expected ",
              requests.size(),
              " rewards, found ",
              rewards.size());
  for (size_t i = 0; i < rewards.size(); ++i) {
    TORCH_CHECK(!std::isinf(static_cast<float>(rewards[i])),
                "[reward] ",
                names_[source],
                ": reward ",
                i,
                " is infinite");
    has_scored_[source] = has_scored_[source] || !std::isnan(rewards[i]);
  }
  requested_[source] += requests.size();
  TORCH_CHECK(
      has_scored_[source] || requested_[source] < kMaxUnscored,
      "[reward] ",
      names_[source],
      " could score none of the first ",
      requested_[source],
      " completions. Check which columns it needs, and whether the completions are too long "
      "for it");
  return rewards;
}

std::vector<std::vector<double>> RewardList::score(std::span<const RewardRequest> requests) {
  std::vector<std::vector<double>> rewards(requests.size(), std::vector<double>(size()));
  for (size_t source = 0; source < size(); ++source) {
    const std::vector<double> column = score_with(source, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      rewards[i][source] = column[i];
    }
  }
  return rewards;
}

}  // namespace reprise
