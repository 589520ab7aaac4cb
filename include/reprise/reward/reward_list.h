// Several sources of rewards, asked together.
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
  static constexpr size_t kPatience = 1000;

  /// Throws if there is none, or a weight is not finite.
  explicit RewardList(std::vector<WeightedReward> sources);

  size_t size() const { return sources_.size(); }
  /// As they are logged. Of two with one name the second is called name_2.
  const std::vector<std::string>& names() const { return names_; }
  std::vector<double> weights() const;

  /// RewardSource::model() of those that have one.
  std::vector<const Model*> models() const;

  /// RewardSource::check() of all.
  void check(const Json& row) const;

  /// One row per request, one column per source: as the sources gave them, not weighted; NaN: this
  /// source cannot score it. Throws if a source has scored none of its first kPatience requests; a
  /// few may be of rows that are for other sources.
  std::vector<std::vector<double>> score(std::span<const RewardRequest> requests);

 private:
  std::vector<double> ask(size_t source, std::span<const RewardRequest> requests);

  std::vector<WeightedReward> sources_;
  std::vector<std::string> names_;
  std::vector<bool> has_scored_;  // of each source: any request, ever
  std::vector<size_t> asked_;     // how many each was asked
};

}  // namespace reprise
