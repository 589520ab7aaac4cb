// What checkpointing saved and cost, as bars on a common scale.
#include "report/charts/axis.h"
#include "report/page/figures.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <algorithm>
#include <set>

namespace reprise::report {
namespace {

std::string memory_bars(const Figures& figures) {
  if (!figures.activation_bytes || !figures.plain_activation_bytes) {
    return {};
  }
  const double with = *figures.activation_bytes, without = *figures.plain_activation_bytes;
  const double longest = std::max({with, without, 1.0});
  return text_element("h4", "", "Activations kept for backward") +
         bar_html("without, estimated", with_unit(without, Unit::Bytes), without / longest, 6) +
         bar_html("with checkpointing", with_unit(with, Unit::Bytes), with / longest, 0);
}

std::string time_bars(const Figures& figures) {
  const auto share = figures.recompute_share();
  if (!share) {
    return {};
  }
  return text_element("h4", "", "Time of a step, median") +
         bar_html("whole step", with_unit(*figures.step_ms, Unit::Milliseconds), 1, 6) +
         bar_html(
             "of it, recompute", with_unit(*figures.recompute_ms, Unit::Milliseconds), *share, 4);
}

/// One square per block, filled if it is checkpointed.
std::string blocks_html(const Json& configuration) {
  constexpr int64_t kMost = 1000;
  const auto count = configuration.find("blocks");
  const auto chosen = configuration.find("checkpointed_blocks");
  if (count == configuration.end() || !count->is_number_integer() ||
      chosen == configuration.end() || !chosen->is_array()) {
    return {};
  }
  std::set<int64_t> recomputed;
  for (const Json& block : *chosen) {
    if (block.is_number_integer()) {
      recomputed.insert(block.get<int64_t>());
    }
  }
  const int64_t blocks = std::clamp<int64_t>(count->get<int64_t>(), 0, kMost);
  std::string squares;
  int64_t filled = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const bool is_recomputed = recomputed.contains(block);
    filled += is_recomputed ? 1 : 0;
    squares +=
        element("i",
                std::string(is_recomputed ? "class=\"on\" " : "") + "title=\"block " +
                    std::to_string(block) + (is_recomputed ? ": checkpointed\"" : ": kept\""),
                "");
  }
  return text_element(
             "h4",
             "",
             "Blocks checkpointed: " + std::to_string(filled) + " of " + std::to_string(blocks)) +
         element("div", "class=\"blocks\"", squares);
}

bool is_off(const Json& configuration) {
  const auto chosen =
      configuration.is_object() ? configuration.find("checkpointed_blocks") : configuration.end();
  return chosen != configuration.end() && chosen->is_array() && chosen->empty();
}

std::string run_html(const ReportRun& run, bool is_one_of_several) {
  if (is_off(run.configuration)) {
    return {};
  }
  const Figures figures = figures_of(run);
  const std::string blocks =
      run.configuration.is_object() ? blocks_html(run.configuration) : std::string();
  const std::string memory = memory_bars(figures), time = time_bars(figures);
  std::string content;
  for (const std::string& part : {memory, time, blocks}) {
    content += part.empty() ? part : element("div", "", part);
  }
  if (content.empty()) {
    return {};
  }
  const std::string name = is_one_of_several ? text_element("h3", "", run.name) : std::string();
  return element(
      "div", "class=\"card effect\"", name + element("div", "class=\"columns\"", content));
}

}  // namespace

std::string checkpointing_html(const Runs& runs) {
  std::string cards;
  for (const ReportRun& run : runs) {
    cards += run_html(run, runs.size() > 1);
  }
  return section_html("Checkpointing", cards);
}

}  // namespace reprise::report
