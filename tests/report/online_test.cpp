// report.html of online training: rewards first, the phases' time and memory, and what the policy
// said, which is text that nobody checked.
#include "report/report_page.h"

#include <reprise/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

/// A run of 20 steps whose reward is its step.
std::vector<Json> online_steps() {
  std::vector<Json> steps;
  for (int step = 1; step <= 20; ++step) {
    steps.push_back({{"step", step},
                     {"loss", -0.5 - step},
                     {"reward", step},
                     {"reward_std", 0.25},
                     {"rewards/format/mean", 0.5 + step},
                     {"rewards/format/std", 0.1 * step},
                     {"rewards/a/b/mean", 0.75},
                     {"frac_reward_zero_std", step == 1 ? 0.5 : 0.125},
                     {"completions/mean_length", 30 + step},
                     {"completions/min_length", 10},
                     {"completions/max_length", 50},
                     {"completions/clipped_ratio", 0.01 * step},
                     {"clip_ratio/low_mean", 0.01 * step},
                     {"clip_ratio/high_mean", 0.02},
                     {"kl", 0.03 * step},
                     {"critic/grad_norm", 2 + step},
                     {"critic/activation_bytes", (step + 1) << 20},
                     {"critic/peak_bytes", (step + 2) << 20},
                     {"critic/recompute_ms", step},
                     {"critic/memory", {{"parameters", 1 << 20}}},
                     {"rollout_ms", 300},
                     {"scoring_ms", 100},
                     {"update_ms", 200},
                     {"rollout_tokens_per_second", step == 1 ? 2400 : 2500},
                     {"rollout_peak_bytes", (step == 1 ? 2 : 1) << 20},
                     {"scoring_peak_bytes", 2 << 20},
                     {"update_peak_bytes", 3 << 20}});
  }
  steps[9]["eval_reward"] = 33.5;
  steps[19]["eval_reward"] = 31.5;
  return steps;
}

Json sample(int64_t step, const Json& prompt, const Json& completion) {
  return {{"step", step},
          {"prompt", prompt},
          {"completion", completion},
          {"rewards", {{"format", 0.5}}},
          {"reward", 0.5},
          {"advantage", -1.25},
          {"is_finished", true}};
}

Page open_samples(const std::vector<Json>& samples) {
  return open_page({{.name = "run", .steps = {}, .samples = samples}});
}

size_t tags_with(const Page& page, const std::string& part) {
  const auto& tags = page.markup.attributes;
  return static_cast<size_t>(std::count_if(tags.begin(), tags.end(), [&](const std::string& tag) {
    return tag.find(part) != std::string::npos;
  }));
}

std::vector<std::string> lines_of(const Page& page, const std::string& title) {
  const Json* const data = page.data_of(title);
  if (data == nullptr) {
    return {"no chart " + title};
  }
  std::vector<std::string> names;
  for (const Json& series : data->at("series")) {
    names.push_back(series.at("name").get<std::string>());
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(OnlineReport, DrawsRewardsFirstAndEachKeyOnce) {
  EXPECT_EQ(open_run(online_steps()).charts,
            (Names{"Reward",
                   "Reward by source",
                   "Spread of rewards by source",
                   "Completion length",
                   "Truncated completions",
                   "Groups without signal",
                   "Clipped ratios",
                   "Loss",
                   "KL",
                   "Critic grad norm",
                   "Critic memory",
                   "Critic recompute",
                   "Critic memory by class",
                   "Peak memory of each phase",
                   "Time of a step",
                   "Rollout speed"}));
}

TEST(OnlineReport, PutsWhatIsComparedIntoOneChart) {
  const Page page = open_run(online_steps());
  EXPECT_EQ(lines_of(page, "Reward"), (Names{"mean", "eval", "deviation"}));
  EXPECT_EQ(lines_of(page, "Reward by source"), (Names{"format", "a/b"}));
  EXPECT_EQ(lines_of(page, "Completion length"), (Names{"mean", "shortest", "longest"}));
  EXPECT_EQ(lines_of(page, "Clipped ratios"), (Names{"low_mean", "high_mean"}));
  EXPECT_EQ(lines_of(page, "Peak memory of each phase"), (Names{"rollout", "scoring", "update"}));
}

TEST(OnlineReport, DrawsTheCriticsBytesAndTimesInTheirUnits) {
  const Page page = open_run(online_steps());
  ASSERT_NE(page.data_of("Critic memory"), nullptr);
  EXPECT_EQ(page.data_of("Critic memory")->at("unit"), "bytes");
  EXPECT_EQ(lines_of(page, "Critic memory"), (Names{"activation", "peak"}));
  EXPECT_EQ(page.data_of("Critic recompute")->at("unit"), "ms");
  EXPECT_EQ(lines_of(page, "Critic memory by class"), (Names{"parameters"}));
}

TEST(OnlineReport, StacksThePhasesToTheTimeOfAStep) {
  const Page page = open_run(online_steps());
  EXPECT_EQ(lines_of(page, "Time of a step"), (Names{"rollout", "scoring", "update"}));
  const Json* const data = page.data_of("Time of a step");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->at("stacked"), true);
  EXPECT_GE(data->at("values").at("high"), 600) << "all three of them";
}

TEST(OnlineReport, DrawsThePhasesOfSeveralRunsOnOneScale) {
  std::vector<Json> slower = online_steps();
  slower[3]["rollout_ms"] = 5000;
  const Page page = open_page({{"a", online_steps(), {}, {}}, {"b", slower, {}, {}}});
  const Json* const a = page.data_of("Time of a step, a");
  const Json* const b = page.data_of("Time of a step, b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->at("values"), b->at("values"));
  EXPECT_GE(a->at("values").at("high"), 5300);
}

TEST(OnlineReport, HeadsThePageWithTheRewardOfTheFirstAndTheLastTenth) {
  const Page page = open_run(online_steps());
  EXPECT_TRUE(page.shows("Final reward19.5from 1.5"));
  EXPECT_TRUE(page.shows("Best eval reward33.5at step 10"));
  EXPECT_TRUE(page.shows("Rollout speed2.50ktokens per second"));
  EXPECT_FALSE(page.shows("Final loss")) << "a policy's loss does not say how well it does";
}

TEST(OnlineReport, WarnsOfARewardThatIsNoNumber) {
  std::vector<Json> steps = online_steps();
  steps[6]["reward"] = nullptr;
  EXPECT_TRUE(open_run(steps).shows("Reward was not finite at 1 step, first at step 7."));
}

TEST(Samples, ShowWhatWasSaidAndHowItWasRewarded) {
  Json record = sample(10, "Two and two?", "Four");
  record["rewards"] = {{"exact", 1}, {"judge", nullptr}};
  record["is_finished"] = false;
  const Page page = open_samples({record});
  EXPECT_TRUE(page.shows("Step 10Two and two?Four"));
  EXPECT_TRUE(page.shows("reward0.5advantage-1.25exact1judge–"));
  EXPECT_TRUE(page.shows("Stopped at the length limit"));
  EXPECT_FALSE(open_samples({sample(10, "a", "b")}).shows("Stopped at"));
  EXPECT_TRUE(open_samples({sample(10, "a", "")}).shows("Step 10aEmpty"));
}

TEST(Samples, WriteAPromptOnceForAllOfItsCompletions) {
  const Page page =
      open_samples({sample(1, "first?", "x"), sample(1, "first?", "y"), sample(1, "second?", "z")});
  EXPECT_EQ(tags_with(page, "rowspan=\"2\""), 1u);
  EXPECT_EQ(tags_with(page, "rowspan=\"1\""), 1u);
  const std::string& text = page.markup.text;
  EXPECT_EQ(text.find("first?"), text.rfind("first?"));
}

TEST(Samples, CannotBreakThePage) {
  const std::string hostile =
      "</script><img src=x onerror=alert(1)>\"'<!--</td></table>\xff\xc3</style>";
  Json record = sample(1, hostile, hostile);
  record["rewards"] = {{hostile, 1}};
  const ReportRun run{.name = hostile, .steps = {}, .samples = {record}};
  for (const std::vector<ReportRun>& runs : {std::vector{run}, std::vector{run, run}}) {
    const Page page = open_page(runs);
    EXPECT_TRUE(page.shows("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
    EXPECT_EQ(tags_with(page, "onerror"), 0u);
    EXPECT_EQ(page.markup.scripts.size(), 1u) << "the page's own";
    EXPECT_EQ(report_html(runs).find('\xff'), std::string::npos);
    EXPECT_EQ(report_html(runs).find("<!--"), std::string::npos);
  }
}

TEST(Samples, AreCutBetweenCharactersAndSaySo) {
  const std::string letter = "\xe5\xad\x97";  // three bytes
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += letter;
  }
  EXPECT_FALSE(open_samples({sample(1, "p", text)}).shows("characters"));
  const Page page = open_samples({sample(1, "p", text + "THE END")});
  EXPECT_TRUE(page.shows(letter + "The first 2000 of 2007 characters"));
  EXPECT_FALSE(page.shows("THE END"));
}

TEST(Samples, AreNewestFirstAndOldOnesFoldedAway) {
  std::vector<Json> samples;
  for (int step = 1; step <= 7; ++step) {
    samples.push_back(sample(step, "p", "said at " + std::to_string(step) + "."));
  }
  const std::string text = open_samples(samples).markup.text;
  const auto place = [&](const std::string& part) { return text.find(part); };
  EXPECT_LT(place("said at 7."), place("said at 3."));
  EXPECT_LT(place("said at 3."), place("Older samples: 2 steps"));
  EXPECT_LT(place("Older samples: 2 steps"), place("said at 2."));
  EXPECT_LT(place("said at 2."), place("said at 1."));
  samples.resize(5);
  EXPECT_EQ(tags_with(open_samples(samples), "details"), 0u);
}

TEST(Samples, OfALongRunAreAFewFromItsWholeLength) {
  std::vector<Json> samples;
  for (int step = 1; step <= 1000; ++step) {
    samples.push_back(sample(step, "p", "said at " + std::to_string(step) + "."));
  }
  for (int more = 0; more < 70; ++more) {
    samples.push_back(sample(1000, "p", "x"));
  }
  const Page page = open_samples(samples);
  EXPECT_TRUE(page.shows("Older samples: 45 of 995 steps"));
  EXPECT_TRUE(page.shows("said at 995."));
  EXPECT_TRUE(page.shows("said at 1."));
  EXPECT_TRUE(page.shows("21 more in samples.jsonl"));
  // A prompt and a completion of each of 49 steps; of the newest, a prompt and 50 completions.
  EXPECT_EQ(tags_with(page, "class=\"said\""), 49u * 2 + 51u);
}

TEST(Samples, ReadRecordsThatAreNotAsTheyShouldBe) {
  const Page page = open_samples({3,
                                  nullptr,
                                  {{"prompt", "no step"}},
                                  {{"step", "one"}},
                                  {{"step", 4}},
                                  {{"step", 5}, {"rewards", {1, 2}}, {"is_finished", "no"}},
                                  sample(6, {{{"role", "user"}}}, 17)});
  EXPECT_TRUE(page.shows("Step 4EmptyEmptyreward–advantage–"));
  EXPECT_TRUE(page.shows("Step 6[{&quot;role&quot;:&quot;user&quot;}]17"));
  EXPECT_FALSE(page.shows("no step"));
  EXPECT_FALSE(open_samples({}).shows("Samples"));
}

}  // namespace
}  // namespace reprise::testing
