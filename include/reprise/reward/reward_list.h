// Several reward sources with weights.
#pragma once

#include <reprise/export.h>
#include <reprise/reward/reward.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace reprise {

struct WeightedReward {
  std::shared_ptr<RewardSource> source;
  double weight = 1;
};

class REPRISE_API RewardList {
 public:
  /// A source that has scored none of so many completions is considered broken.
  static constexpr size_t kMaxUnscored = 1000;

  /// Throws if `sources` is empty or a weight is not finite.
  explicit RewardList(std::vector<WeightedReward> sources);

  size_t size() const { return sources_.size(); }
  /// The names in metrics. Duplicates get a suffix: name, name_2, ...
  const std::vector<std::string>& names() const { return names_; }
  std::vector<double> weights() const;

  /// RewardSource::model() of the sources that have one.
  std::vector<const Model*> models() const;

  /// Calls RewardSource::check() of all sources.
  void check(const Json& row) const;

  /// One row per request and one column per source, not weighted; NaN where a source cannot score a
  /// completion. Single completions may be meant for other sources, but a source that has scored
  /// none of its first kMaxUnscored completions is an error.
  std::vector<std::vector<double>> score(std::span<const RewardRequest> requests);

 private:
  std::vector<double> score_with(size_t source, std::span<const RewardRequest> requests);

  std::vector<WeightedReward> sources_;
  std::vector<std::string> names_;
  std::vector<bool> has_scored_;   // per source: any completion so far
  std::vector<size_t> requested_;  // per source: completions so far
};

}  // namespace reprise
