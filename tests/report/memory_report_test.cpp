// memory.html: whole markup, the plan's figures in it, and nothing that text can do to break it.
#include "report/page/memory_sections.h"
#include "report/report_page.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/report/memory_report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

StepTimeline timeline_of(int64_t kept, bool is_plain) {
  using enum StepStage;
  StepTimeline timeline;
  const auto add = [&](StepStage stage, size_t region, double ms, int64_t working, int64_t head) {
    timeline.points.push_back({.stage = stage,
                               .region = region,
                               .start_ms = timeline.duration_ms(),
                               .duration_ms = ms,
                               .input_bytes = 1_MiB,
                               .kept_bytes = kept,
                               .working_bytes = working,
                               .head_bytes = head});
  };
  add(Forward, 0, 10, 2_MiB, 0);
  add(Head, 0, 5, 0, 3_MiB);
  if (!is_plain) {
    add(Recompute, 0, 7.5, 2_MiB, 0);
  }
  add(Backward, 0, 15, 2_MiB, 0);
  return timeline;
}

MemoryReport sample_report() {
  return {.title = "Tiny model",
          .model = "llama, 2 blocks",
          .device = "cpu",
          .budget = 6_MiB,
          .peak_bytes = 4_MiB,
          .extra_ms = 7.5,
          .fixed = {{"parameters", 10_MiB}, {"optimizer", 20_MiB}},
          .timeline = timeline_of(0, false),
          .plain_timeline = timeline_of(8_MiB, true),
          .curve = {{4_MiB, 7.5}, {8_MiB, 2}, {12_MiB, 0}},
          .rows = {{.regions = "layers.0 to layers.1",
                    .region_count = 2,
                    .choice = RowChoice::Recompute,
                    .ms = 3.75,
                    .why = "holds its input"},
                   {.regions = "layers.0 to layers.1",
                    .region_count = 2,
                    .op = "aten::mm #2",
                    .choice = RowChoice::Keep,
                    .bytes = 2_MiB,
                    .ms = 1.5,
                    .why = "2 MiB buy 1.5 ms"},
                   {.regions = "layers.0 to layers.1",
                    .region_count = 2,
                    .op = "aten::view",
                    .why = "a view"}},
          .measured_peaks = {4_MiB, 4_MiB + 1024},
          .notes = {"one note"}};
}

Page open_memory(const MemoryReport& report) {
  return open_html(memory_report_html(report));
}

TEST(MemoryReport, SaysTheMainThingFirst) {
  const auto sentence = report::plan_sentence(sample_report());
  EXPECT_EQ(sentence,
            "6.00 MiB budget: 4.00 MiB of activations predicted, 25 % slower than without "
            "checkpointing, which would need 12.0 MiB.");
  const Page page = open_memory(sample_report());
  EXPECT_TRUE(page.shows(sentence));
  EXPECT_LT(page.markup.text.find(sentence), page.markup.text.find("one note"));
  auto free = sample_report();
  free.extra_ms = 0;
  EXPECT_TRUE(report::plan_sentence(free).ends_with(", as fast as without checkpointing."));
  MemoryReport bare{.title = "x", .peak_bytes = 1_MiB, .extra_ms = 2};
  EXPECT_EQ(report::plan_sentence(bare),
            "1.00 MiB of activations predicted, 2.0 ms a step more than without checkpointing.");
}

TEST(MemoryReport, DrawsBothStepsOnOneScaleWithTheBudget) {
  const Page page = open_memory(sample_report());
  EXPECT_EQ(
      page.charts,
      (std::vector<std::string>{
          "With the plan", "Without checkpointing", "What bytes buy", "Predicted and measured"}));
  const Json& with = *page.data_of("With the plan");
  const Json& without = *page.data_of("Without checkpointing");
  EXPECT_EQ(with.at("values"), without.at("values"));
  EXPECT_EQ(with.at("steps"), without.at("steps"));
  EXPECT_GE(with.at("values").at("high"), 12.0 * 1_MiB);
  EXPECT_EQ(with.at("steps").at("high"), 37.5);
  EXPECT_EQ(with.at("step").at("unit"), "ms");
  EXPECT_EQ(with.at("series").at(0).at("x"), Json({0.0, 10.0, 15.0, 22.5, 37.5}));
  EXPECT_TRUE(page.shows("budget 6.00 MiB"));
  EXPECT_TRUE(page.shows("forward"));
  EXPECT_EQ(with.at("stages").at(2), Json({15.0, "recompute of block 0"}));
  auto ample = sample_report();
  ample.budget = 1_GiB;  // would make the areas flat
  EXPECT_LT(open_memory(ample).data_of("With the plan")->at("values").at("high"), 64.0 * 1_MiB);
}

TEST(MemoryReport, ShowsTheFiguresThePlanAndTheCurve) {
  const Page page = open_memory(sample_report());
  EXPECT_TRUE(page.shows("34.0 MiB")) << "all bytes with the plan";
  EXPECT_TRUE(page.shows("42.0 MiB")) << "all bytes without checkpointing";
  EXPECT_TRUE(page.shows("+0.024 % vs. predicted")) << "measured";
  EXPECT_TRUE(page.shows("layers.0 to layers.1 (2 alike)"));
  EXPECT_TRUE(page.shows("2 MiB buy 1.5 ms"));
  EXPECT_TRUE(page.shows("+3.75 ms")) << "paid";
  EXPECT_TRUE(page.shows("−1.5 ms")) << "saved";
  EXPECT_FALSE(page.shows("aten::view")) << "what costs nothing is counted, not listed";
  EXPECT_TRUE(page.shows("1 more"));
  const Json& curve = page.data_of("What bytes buy")->at("series");
  EXPECT_EQ(curve.at(0).at("x"), Json({4194300.0})) << "six digits of 4 MiB";
  EXPECT_EQ(curve.at(1).at("y"), Json({7.5, 2.0, 0.0}));
}

TEST(MemoryReport, ShowsTheMeasuredPeakByClassWhereThereIsOne) {
  auto report = sample_report();
  EXPECT_TRUE(open_memory(report).shows("at most34.0 MiB")) << "maxima of different moments";
  report.measured = {{"parameters", 10_MiB}, {"optimizer", 20_MiB}, {"activations", 3_MiB}};
  report.plain = {{"parameters", 10_MiB}, {"gradients and activations", 25_MiB}};
  const Page page = open_memory(report);
  EXPECT_TRUE(page.shows("With the plan, measured"));
  EXPECT_TRUE(page.shows("peak33.0 MiB"));
  EXPECT_TRUE(page.shows("peak35.0 MiB"));
  EXPECT_FALSE(page.shows("at most"));
}

TEST(MemoryReport, ShowsWhatThereIs) {
  const Page page = open_memory({.title = "Nothing known"});
  EXPECT_TRUE(page.charts.empty());
  EXPECT_TRUE(page.shows("Nothing known"));
  const auto read_back = memory_report(MemoryPlan::of({{.name = "a"}}, 3_MiB, 1));
  EXPECT_TRUE(open_memory(read_back).shows("3.00 MiB"));
  EXPECT_TRUE(open_memory(read_back).charts.empty());
}

TEST(MemoryReport, EscapesWhateverTextItIsGiven) {
  const std::string hostile = "</script><script>alert(1)</script><!--\"'&\xff</style>";
  MemoryReport report = sample_report();
  const size_t own_scripts = open_memory(report).markup.scripts.size();
  report.title = report.model = report.device = report.notes[0] = report.fixed[0].name = hostile;
  report.rows[0].regions = report.rows[0].why = report.rows[1].op = report.rows[1].why = hostile;
  const std::string html = memory_report_html(report);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_EQ(open_html(html).markup.scripts.size(), own_scripts);
}

TEST(MemoryReport, StaysSmallForDeepModelsAndFetchesNothing) {
  MemoryReport report = sample_report();
  for (StepTimeline* timeline : {&report.timeline, &report.plain_timeline}) {
    for (int i = 0; i < 1000; ++i) {
      timeline->points.push_back({.stage = StepStage::Backward,
                                  .start_ms = timeline->duration_ms(),
                                  .duration_ms = 1.0 / 3,
                                  .input_bytes = 1_MiB + i,
                                  .kept_bytes = 3_MiB - i,
                                  .working_bytes = 7 * i});
    }
    timeline->points[500].working_bytes = 99'000'000;
  }
  const std::string html = memory_report_html(report);
  EXPECT_LT(html.size(), 300'000U);
  const Page page = open_html(html);
  const Json& values = page.data_of("With the plan")->at("series").at(2).at("y");
  EXPECT_NE(std::find(values.begin(), values.end(), 99e6), values.end()) << "the peak is kept";
  for (const char* const address : {"http:", "https:", "//cdn", "@import", "url("}) {
    EXPECT_EQ(html.find(address), std::string::npos) << address;
  }
}

TEST(MemoryReport, IsWrittenToItsFile) {
  const TemporaryFolder folder;
  write_memory_report(folder / "memory.html", sample_report());
  EXPECT_EQ(read_file(folder / "memory.html"), memory_report_html(sample_report()));
}

}  // namespace
}  // namespace reprise::testing
