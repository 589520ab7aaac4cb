// Several sources together: their columns, their names, and sources that are broken.
#include <reprise/reward/reward_list.h>
#include <reprise/reward/verifiers.h>

#include "reward/reward_requests.h"
#include "support/nan.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using testing::expect_error;
using testing::kNaN;
using testing::RewardRequests;

/// Gives the same numbers to every batch.
class FixedRewards final : public RewardSource {
 public:
  explicit FixedRewards(std::vector<double> given) : rewards(std::move(given)) {}
  std::string name() const override { return "fixed"; }
  std::vector<double> score(std::span<const RewardRequest> /*requests*/) override {
    return rewards;
  }
  std::vector<double> rewards;
};

WeightedReward fixed(std::vector<double> rewards, double weight = 1) {
  return {std::make_shared<FixedRewards>(std::move(rewards)), weight};
}

WeightedReward verifier(const std::string& spec) {
  return {make_verifier(spec)};
}

TEST(RewardList, PutsEachSourceIntoAColumnUnweighted) {
  RewardRequests batch;
  batch.add("", "4", {{"answer", "4"}}).add("", "<a>5</a>", {{"answer", nullptr}});
  RewardList list({verifier("exact_match"), verifier("format:tags=a"), fixed({0.5, -2}, 10)});
  EXPECT_EQ(list.weights(), std::vector<double>({1, 1, 10}));
  const auto rewards = list.score(batch.requests);
  ASSERT_EQ(rewards.size(), 2U);
  EXPECT_EQ(rewards[0], std::vector<double>({1, 0, 0.5}));
  EXPECT_TRUE(std::isnan(rewards[1].at(0)));
  EXPECT_EQ(rewards[1].at(1), 1);
  EXPECT_EQ(rewards[1].at(2), -2);
}

TEST(RewardList, GivesSourcesOfOneNameDifferentOnes) {
  const RewardList list(
      {verifier("regex:pattern=a"), verifier("regex:pattern=b"), verifier("regex:pattern=c")});
  EXPECT_EQ(list.names(), std::vector<std::string>({"regex", "regex_2", "regex_3"}));
}

TEST(RewardList, ChecksARowForAllSources) {
  const RewardList list({verifier("format"), verifier("boxed")});
  EXPECT_NO_THROW(list.check({{"answer", "1"}}));
  expect_error([&] { list.check({{"prompt", "1"}}); }, "boxed: the row has no column");
}

TEST(RewardList, RefusesASourceThatHasNeverScoredAnything) {
  RewardRequests batch;
  batch.add("", "1").add("", "2");
  RewardList never({fixed({1, 1}), fixed({kNaN, kNaN})});
  for (size_t asked = 2; asked < RewardList::kMaxUnscored; asked += 2) {
    never.score(batch.requests);
  }
  expect_error([&] { never.score(batch.requests); },
               "[reward] fixed_2 could score none of the first 1000 completions");
  const auto source = std::make_shared<FixedRewards>(std::vector<double>{kNaN, 3});
  RewardList sometimes({{source}});
  EXPECT_NO_THROW(sometimes.score(batch.requests));
  source->rewards = {kNaN, kNaN};
  EXPECT_TRUE(std::isnan(sometimes.score(batch.requests)[1][0]));
}

TEST(RewardList, RefusesWhatIsNoReward) {
  RewardRequests batch;
  batch.add("", "1").add("", "2");
  RewardList few({fixed({1})});
  expect_error([&] { few.score(batch.requests); }, "fixed: expected 2 rewards, found 1");
  RewardList infinite({fixed({1, -std::numeric_limits<double>::infinity()})});
  expect_error([&] { infinite.score(batch.requests); }, "fixed: reward 1 is infinite");
}

TEST(RewardList, NeedsASourceAndFiniteWeights) {
  expect_error([] { RewardList({}); }, "expected at least one reward source");
  expect_error([] { RewardList({fixed({1}, kNaN)}); }, "a finite weight, found nan");
  expect_error([] { RewardList({WeightedReward{}}); }, "expected a source");
}

}  // namespace
}  // namespace reprise
