// report.html: whole markup, the figures in it, and nothing that records can do to break it.
#include "report/report_page.h"
#include "support/nan.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

TEST(Markup, SeesElementsThatAreNotClosed) {
  EXPECT_EQ(parse_markup("<p><b>x</b></p>").error, "");
  EXPECT_NE(parse_markup("<p><b>x</p></b>").error, "");
  EXPECT_NE(parse_markup("<p>x").error, "");
  EXPECT_NE(parse_markup("x</p>").error, "");
}

TEST(Report, ShowsTheFiguresOfARun) {
  const Page page = open_run(sample_steps(10));
  EXPECT_TRUE(page.shows("1.2")) << "final loss";
  EXPECT_TRUE(page.shows("at step 10")) << "best eval loss";
  EXPECT_TRUE(page.shows("300 MiB")) << "peak";
  EXPECT_TRUE(page.shows("75.0 %")) << "activations saved";
  EXPECT_TRUE(page.shows("50.0 MiB instead of 200 MiB"));
  EXPECT_TRUE(page.shows("25.0 %")) << "recompute";
  EXPECT_TRUE(page.shows("10.0k")) << "tokens per second";
}

TEST(Report, HasNoFiguresOfCheckpointingWithoutIt) {
  auto steps = sample_steps(30);
  for (Json& step : steps) {
    step["recompute_ms"] = 0;
    step["estimated_activation_bytes"] = step["activation_bytes"];
  }
  const Page page = open_run(steps);
  EXPECT_FALSE(page.shows("Activations saved"));
  EXPECT_FALSE(page.shows("of a step's"));
  EXPECT_TRUE(page.shows("Peak memory"));
}

TEST(Report, DrawsAChartForEachQuantityThatIsThere) {
  EXPECT_EQ(open_run(sample_steps(10)).charts,
            (std::vector<std::string>{"Loss",
                                      "Rewards",
                                      "Reward accuracy",
                                      "Memory by class",
                                      "Peak memory",
                                      "Activations",
                                      "Throughput",
                                      "Step time",
                                      "Learning rate",
                                      "Gradient norm"}));
  EXPECT_EQ(open_run({{{"step", 1}, {"loss", 2}}, {{"step", 2}, {"loss", 1}}}).charts,
            std::vector<std::string>{"Loss"});
}

TEST(Report, DrawsQuantitiesThatItDoesNotKnow) {
  const Page page = open_run({{{"step", 1}, {"my/own_metric", 2}}});
  EXPECT_EQ(page.charts, std::vector<std::string>{"My/own metric"});
}

TEST(Report, GivesThePointerTheValues) {
  const Page page = open_run(sample_steps(4));
  const Json& series = page.data_of("Loss")->at("series");
  EXPECT_EQ(series.at(0).at("x"), Json({1, 2, 3, 4}));
  EXPECT_EQ(series.at(0).at("y"), Json({3.0, 2.0, 1.66667, 1.5}));
  EXPECT_EQ(series.at(1).at("name"), "eval");
  EXPECT_EQ(series.at(1).at("y"), Json({1.25}));
}

TEST(Report, HasNothingToShowOfAnEmptyRun) {
  const Page page = open_run(std::vector<Json>{});
  EXPECT_TRUE(page.charts.empty());
  EXPECT_TRUE(page.shows("Training run"));
  expect_error([] { report_html({}); }, "at least one run");
}

TEST(Report, FetchesNothing) {
  const std::string html = report_html({{"run", sample_steps(100), {{"model", "m"}}, {}}});
  for (const char* const address : {"http:", "https:", "//cdn", "@import", "url("}) {
    EXPECT_EQ(html.find(address), std::string::npos) << address;
  }
  for (const std::string& tag : parse_markup(html).attributes) {
    EXPECT_EQ(tag.find(" src="), std::string::npos) << tag;
    EXPECT_EQ(tag.find(" href="), std::string::npos) << tag;
  }
}

TEST(Report, EscapesWhateverTextItIsGiven) {
  const std::string hostile = "</script><script>alert(1)</script><!--\"'&\xff</style>";
  const Json all = {{"title", hostile}, {"model", hostile}, {hostile, hostile}};
  std::vector<Json> steps = sample_steps(3);
  steps[0][hostile] = 1.5;
  for (size_t i = 0; i < steps.size(); ++i) {  // in a family, on evaluation data, and constant
    steps[i][hostile + "/a"] = i;
    steps[i]["eval_" + hostile + "/b"] = i;
    steps[i]["critic/" + hostile] = i;
    steps[i]["same" + hostile] = 3;
  }
  const ReportRun run{hostile, steps, all, {{"warnings", {hostile}}, {hostile, hostile}}};
  std::vector<Json> plain = sample_steps(3);
  plain[0]["own"] = 1.5;
  for (size_t i = 0; i < plain.size(); ++i) {
    plain[i].update({{"h/a", i}, {"eval_h/b", i}, {"critic/h", i}});
  }
  const size_t own_scripts = open_run(plain).markup.scripts.size();
  for (const std::vector<ReportRun>& runs : {std::vector{run}, std::vector{run, run}}) {
    const std::string html = report_html(runs);
    EXPECT_EQ(html.find("<script>alert"), std::string::npos);
    EXPECT_EQ(html.find("<!--"), std::string::npos);
    EXPECT_EQ(html.find('\xff'), std::string::npos);
    const Page page = open_page(runs);
    EXPECT_TRUE(page.shows("&lt;/script&gt;&lt;script&gt;alert(1)"));
    for (const std::string& tag : page.markup.attributes) {
      EXPECT_EQ(tag.find("alert(1)<"), std::string::npos) << tag;
    }
  }
  EXPECT_EQ(open_page({run}).markup.scripts.size(), own_scripts);
}

TEST(Report, MarksValuesThatAreNotFiniteAndWarnsOfThem) {
  std::vector<Json> steps = sample_steps(6);
  steps[2]["loss"] = kNaN;
  steps[3]["loss"] = nullptr;  // as MetricsFile writes it
  steps[4]["grad_norm"] = std::numeric_limits<double>::infinity();
  const Page page = open_run(steps);
  EXPECT_TRUE(page.shows("Loss was not finite at 2 steps, first at step 3."));
  EXPECT_TRUE(page.shows("Grad norm was not finite at 1 step, first at step 5."));
  EXPECT_EQ(page.data_of("Loss")->at("series").at(0).at("x"), Json({1, 2, 5, 6}));
  const auto& tags = page.markup.attributes;
  EXPECT_EQ(
      std::count_if(tags.begin(),
                    tags.end(),
                    [](const std::string& tag) { return tag.find("broken") != std::string::npos; }),
      3);
  // The line is broken there as well: two beginnings.
  const auto line = std::find_if(tags.begin(), tags.end(), [](const std::string& tag) {
    return tag.starts_with("path class=\"line\"");
  });
  ASSERT_NE(line, tags.end());
  EXPECT_EQ(std::count(line->begin(), line->end(), 'M'), 2);
}

TEST(Report, NeverWritesACoordinateThatIsNotANumber) {
  const double huge = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> cases = {{kNaN, kNaN},
                                                  {huge, -huge},
                                                  {tiny, tiny},
                                                  {0, 0},
                                                  {-1, -1},
                                                  {1e-300, 1e100},
                                                  {1e149, -1e149},
                                                  {5, std::nextafter(5, 6)}};
  for (const auto& values : cases) {
    std::vector<Json> steps;
    for (const char* const key : {"loss",
                                  "grad_norm",
                                  "learning_rate",
                                  "step_ms",
                                  "peak_bytes",
                                  "rewards/accuracies",
                                  "other"}) {
      for (size_t i = 0; i < values.size(); ++i) {
        steps.push_back({{"step", i + 1}, {key, values[i]}, {"memory", {{"other", values[i]}}}});
      }
    }
    const Page page = open_run(steps);
    for (const std::string& tag : page.markup.attributes) {
      EXPECT_EQ(tag.find("nan"), std::string::npos) << tag;
      EXPECT_EQ(tag.find("inf"), std::string::npos) << tag;
    }
  }
}

TEST(Report, ReadsRecordsThatAreNotAsTheyShouldBe) {
  const Page page = open_run({3,
                              nullptr,
                              {{"loss", 1}},
                              {{"step", "one"}, {"loss", 1}},
                              {{"step", 1e300}, {"loss", 1}},
                              {{"step", 5}, {"loss", "low"}, {"memory", 7}},
                              {{"step", 4}, {"loss", 2}},
                              {{"step", 3}, {"loss", 1}}},
                             Json::array(),
                             Json(5));
  EXPECT_EQ(page.data_of("Loss")->at("series").at(0).at("x"), Json({3, 4})) << "sorted by step";
}

TEST(Report, ComparesSeveralRuns) {
  std::vector<Json> other = sample_steps(5);
  other.back()["loss"] = 7.25;
  const Page page = open_page({{"plain", sample_steps(5), {{"policy", "off"}, {"seed", 3}}, {}},
                               {"full", other, {{"policy", "all"}, {"seed", 3}}, {}}});
  EXPECT_TRUE(page.shows("7.25"));
  const Json& loss = page.data_of("Loss")->at("series");
  EXPECT_EQ(loss.at(0).at("name"), "plain, train");
  EXPECT_EQ(loss.at(1).at("name"), "full, train");
  EXPECT_NE(loss.at(0).at("color"), loss.at(1).at("color"));
  EXPECT_TRUE(page.shows("policyoffall"));
  EXPECT_FALSE(page.shows("seed33")) << "what all runs share is written once";
}

TEST(Report, DrawsTheMemoryOfSeveralRunsOnOneScale) {
  std::vector<Json> larger = sample_steps(3);
  larger[1]["memory"]["activations"] = 900 * kMiB;
  const Page page = open_page({{"a", sample_steps(3), {}, {}}, {"b", larger, {}, {}}});
  EXPECT_EQ(page.data_of("Memory by class, a")->at("values"),
            page.data_of("Memory by class, b")->at("values"));
  EXPECT_GE(page.data_of("Memory by class, a")->at("values").at("high"), 1000.0 * kMiB);
}

TEST(Report, SaysThatRunsCoincideWhereTheyDo) {
  const Page page = open_page({{"a", sample_steps(3), {}, {}}, {"b", sample_steps(3), {}, {}}});
  EXPECT_TRUE(page.shows("All runs coincide"));
}

TEST(Report, ShowsWhichBlocksAreCheckpointed) {
  const Json configuration = {{"blocks", 4}, {"checkpointed_blocks", {0, 2}}};
  EXPECT_TRUE(open_run(sample_steps(2), configuration).shows("Blocks checkpointed: 2 of 4"));
  const Json off = {{"blocks", 4}, {"checkpointed_blocks", Json::array()}};
  EXPECT_FALSE(open_run(sample_steps(2), off).shows("Blocks checkpointed"));
}

TEST(Report, StaysSmallForALongRun) {
  std::vector<Json> steps = sample_steps(5000);
  steps[3210]["grad_norm"] = 77.0;
  const Page page = open_run(steps);
  for (const Json& data : page.data) {
    for (const Json& series : data.at("series")) {
      EXPECT_LE(series.at("x").size(), 801u) << series.at("name");
    }
  }
  const Json& values = page.data_of("Gradient norm")->at("series").at(0).at("y");
  EXPECT_NE(std::find(values.begin(), values.end(), 77.0), values.end()) << "a spike is kept";
}

TEST(Report, IsWrittenToItsFile) {
  const TemporaryFolder folder;
  write_report(folder / "report.html", sample_steps(3), {{"model", "tiny"}}, {{"best", 1}});
  EXPECT_EQ(read_file(folder / "report.html"),
            report_html({{"run", sample_steps(3), {{"model", "tiny"}}, {{"best", 1}}}}));
}

}  // namespace
}  // namespace reprise::testing
