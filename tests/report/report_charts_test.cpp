// Which charts report.html has, what is in them and beside them, and the head of the page.
#include "report/report_page.h"

#include <reprise/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

TEST(ReportCharts, PutsWhatBelongsTogetherIntoOneChart) {
  std::vector<Json> steps = sample_steps(4);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto value = static_cast<double>(i);
    steps[i].update({{"logits/chosen", value}, {"logits/rejected", -value}, {"margin", value}});
    steps[i].update({{"logits/took_ms", 2 * value}, {"my_bytes", kMiB * (value + 1)}});
  }
  steps.back().update({{"eval_logits/chosen", 1}, {"eval_margin", 2}});
  const Page page = open_run(steps);
  const auto names = [&](const char* title) {
    std::vector<std::string> all;
    const Json* const data = page.data_of(title);
    for (const Json& series : data == nullptr ? Json::array() : data->at("series")) {
      all.push_back(series.at("name").get<std::string>());
    }
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("Logits"), (Names{"chosen", "rejected", "chosen, eval"}));
  EXPECT_EQ(names("Margin"), (Names{"train", "eval"}));
  EXPECT_EQ(names("Logits/took ms"), (Names{"logits/took_ms"})) << "another unit";
  EXPECT_EQ(page.data_of("My bytes")->at("unit"), "bytes");
}

TEST(ReportCharts, ListsConstantsInsteadOfDrawingThem) {
  std::vector<Json> steps = sample_steps(4);
  for (Json& step : steps) {
    step["my_rate"] = 0.125;
    step["learning_rate"] = 2e-5;
    step["scratch_bytes"] = 3 * kMiB;
  }
  const Page page = open_run(steps);
  EXPECT_EQ(page.data_of("My rate"), nullptr);
  EXPECT_EQ(page.data_of("Learning rate"), nullptr);
  EXPECT_TRUE(page.shows("Constant over the run"));
  EXPECT_TRUE(page.shows("my_rate0.125"));
  for (Json& step : steps) {
    step["peak_bytes"] = 40 * kMiB;
  }
  EXPECT_TRUE(open_run(steps).shows("peak_bytes40.0 MiB"));
  EXPECT_TRUE(page.shows("learning_rate2e-05"));
  EXPECT_TRUE(page.shows("scratch_bytes3.00 MiB"));
  steps[1]["scratch_bytes"] = 3 * kMiB + 64;  // allocators round
  EXPECT_EQ(open_run(steps).data_of("Scratch bytes"), nullptr);
  EXPECT_FALSE(open_run(sample_steps(4)).shows("Constant over the run"));
  steps[2]["my_rate"] = nullptr;  // a gap is no constant
  EXPECT_NE(open_run(steps).data_of("My rate"), nullptr);
}

TEST(ReportCharts, LeavesNoHoleBesideAHalfChart) {
  for (int more = 0; more < 3; ++more) {
    std::vector<Json> steps = sample_steps(3);
    for (int i = 0; i < more; ++i) {
      for (size_t step = 0; step < steps.size(); ++step) {
        steps[step]["own" + std::to_string(i)] = step;
      }
    }
    const std::string html = report_html({{"run", steps, {}, {}}});
    // Between the starts of grids and full charts, halves come in pairs.
    size_t halves = 0;
    for (size_t at = html.find("<div class=\"charts\""); at != std::string::npos;) {
      const size_t half = html.find("<figure class=\"chart\">", at + 1);
      const size_t full = html.find("<figure class=\"chart full\">", at + 1);
      const size_t grid = html.find("<div class=\"charts\"", at + 1);
      at = std::min({half, full, grid});
      if (at == half && at != std::string::npos) {
        ++halves;
      } else {
        EXPECT_EQ(halves % 2, 0u) << more;
        halves = 0;
      }
    }
  }
}

TEST(ReportCharts, SaysWhereAndHowTheRunWasMade) {
  const Json facts = {{"model", "m"},
                      {"data", "d"},
                      {"date", "2030-01-02 03:04 +0000"},
                      {"host", "box<b>"},
                      {"version", "1.2.3"},
                      {"libtorch", "2.11.0"},
                      {"seed", 7},
                      {"command", "reprise sft --model 'a b' </dd><script>alert(1)</script>"}};
  const Page page = open_run(sample_steps(2), facts);
  EXPECT_TRUE(page.shows("Date2030-01-02 03:04 +0000"));
  EXPECT_TRUE(page.shows("Hostbox&lt;b&gt;"));
  EXPECT_TRUE(page.shows("Reprise1.2.3"));
  EXPECT_TRUE(page.shows("LibTorch2.11.0"));
  EXPECT_TRUE(page.shows("Seed7"));
  EXPECT_TRUE(page.shows("Commandreprise sft --model &#39;a b&#39; &lt;/dd&gt;&lt;script&gt;"));
}

TEST(ReportCharts, GivesTheScriptATimeForEachStep) {
  std::vector<Json> steps = sample_steps(3);
  steps[1]["budget"] = {{"planning_ms", 900}};
  const Page page = open_run(steps);
  EXPECT_EQ(page.data_of("Loss")->at("series").at(0).at("t"), Json({0.101, 1.101, 1.201}));
  EXPECT_FALSE(open_run({{{"step", 1}, {"loss", 2}}, {{"step", 2}, {"loss", 1}}})
                   .data_of("Loss")
                   ->at("series")
                   .at(0)
                   .contains("t"));
}

TEST(ReportCharts, TheScriptSetsTextAndNeverMarkup) {
  const std::string script = open_run(sample_steps(2)).markup.scripts.back();
  for (const char* const way : {"innerHTML",
                                "outerHTML",
                                "insertAdjacentHTML",
                                "document.write",
                                "eval(",
                                "Function(",
                                "fetch(",
                                "XMLHttpRequest",
                                "import("}) {
    EXPECT_EQ(script.find(way), std::string::npos) << way;
  }
  EXPECT_NE(script.find("textContent"), std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
