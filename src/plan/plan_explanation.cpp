#include "plan/plan_explanation.h"

#include "checkpoint/bytes_text.h"
#include "plan/cost/trace_peaks.h"
#include "plan/step_timeline.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

namespace reprise::planning {

using detail::bytes_text;

namespace {

/// Measured times have no more than three significant digits.
std::string three_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string ms_text(double ms) {
  return three_digits(ms) + " ms";
}

/// Regions [first, end): of one kind with the same decision, or joined.
struct Run {
  size_t first, end;
};

std::vector<Run> runs_of(const StepTrace& trace, const std::vector<RegionDecision>& decisions) {
  std::vector<Run> runs;
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].joined > 0) {
      runs.push_back({i, i + decisions[i].joined + 1});
      i += decisions[i].joined;
      continue;
    }
    const bool is_like_last = i > 0 && decisions[runs.back().first].joined == 0 &&
                              trace.regions[i].kind == trace.regions[i - 1].kind &&
                              decide_the_same(decisions[i], decisions[i - 1]);
    if (is_like_last) {
      ++runs.back().end;
    } else {
      runs.push_back({i, i + 1});
    }
  }
  return runs;
}

class Explanation {
 public:
  Explanation(const StepTrace& trace,
              const std::vector<RegionDecision>& decisions,
              int64_t budget,
              Counted counted)
      : trace_(trace), decisions_(decisions), budget_(budget), counted_(counted) {}

  std::vector<PlanRow> rows() const {
    const std::vector<int64_t> held = held_bytes(trace_, decisions_);
    std::vector<PlanRow> rows;
    for (const Run& run : runs_of(trace_, decisions_)) {
      rows.push_back(whole(run, held[run.first]));
      if (!decisions_[run.first].is_plain && decisions_[run.first].joined == 0) {
        for (const TracedOp& op : timed_as(trace_, run.first).ops) {
          rows.push_back(row_of(run, op));
        }
      }
    }
    return rows;
  }

 private:
  std::string name(size_t region) const {
    const std::string& given = trace_.regions[region].name;
    return given.empty() ? "region " + std::to_string(region) : given;
  }

  PlanRow empty_row(const Run& run) const {
    PlanRow row;
    row.region_count = run.end - run.first;
    row.regions = name(run.first) + (row.region_count > 1 ? " to " + name(run.end - 1) : "");
    return row;
  }

  PlanRow whole(const Run& run, int64_t held) const {
    const TracedRegion& region = timed_as(trace_, run.first);
    const RegionDecision& decision = decisions_[run.first];
    PlanRow row = empty_row(run);
    row.bytes = std::max<int64_t>(held, 0);
    if (decision.joined > 0) {
      row.choice = RowChoice::Recompute;
      for (size_t i = run.first; i < run.end; ++i) {
        row.ms += recompute_ms(timed_as(trace_, i), {.name = trace_.regions[i].name});
      }
      row.why = "joined: only the first region's input is held, the rest is recomputed";
      row.why += decision.is_plain ? "" : ", and once more inside each region";
      return row;
    }
    if (decision.is_plain) {
      row.choice = RowChoice::Plain;
      row.ms = recompute_ms(region, {.name = region.name});
      row.why = "nothing is recomputed: " + bytes_text(row.bytes) + " saves " + ms_text(row.ms);
      return row;
    }
    row.choice = RowChoice::Recompute;
    row.ms = recompute_ms(region, decision);
    row.why = std::string("holds its input") + (decision.offload_inputs ? " in host memory" : "") +
              (held > 0 ? " and " + bytes_text(held) : "") + ", recomputes the rest in " +
              ms_text(row.ms);
    return row;
  }

  PlanRow row_of(const Run& run, const TracedOp& op) const {
    PlanRow row = empty_row(run);
    row.op = op.name + (op.overload.empty() ? "" : "." + op.overload);
    if (op.call_index != kNone && op.call_index > 0) {
      row.op += " #" + std::to_string(op.call_index + 1);
    }
    row.bytes = op.bytes;
    row.ms = op.is_rerun ? op.forward_ms : 0;
    std::tie(row.choice, row.why) = choice_of(run, op);
    return row;
  }

  std::pair<RowChoice, std::string> choice_of(const Run& run, const TracedOp& op) const {
    const std::string gain = bytes_text(op.bytes) + " saves " + ms_text(op.forward_ms);
    switch (decision_about(op, decisions_[run.first])) {
      case Decision::Keep:
        return {
            RowChoice::Keep,
            gain + (has_best_rate(timed_as(trace_, run.first), op) ? ", the best rate of its region"
                                                                   : "")};
      case Decision::Offload:
        return {RowChoice::Offload, gain + ", held in host memory"};
      case Decision::Compress:
        return {RowChoice::Compress,
                gain + ", held compressed" +
                    (decisions_[run.first].allow_lossy ? "; LOSSY: values may change" : "")};
      case Decision::Recompute:
        break;
    }
    if (!op.is_rerun) {
      return {RowChoice::Nothing, "not needed by backward"};
    }
    if (op.bytes == 0) {
      return op.name.ends_with("_")
                 ? std::pair(RowChoice::Recompute, std::string("writes in place, so it runs again"))
                 : std::pair(RowChoice::Nothing, std::string("a view, takes no bytes"));
    }
    std::string why = ms_text(op.forward_ms) + " instead of " + bytes_text(op.bytes);
    if (!can_be_planned(op)) {
      why += "; cannot be kept";
    } else if (!fits(run, op)) {
      why += "; keeping one more would exceed the budget";
    }
    return {RowChoice::Recompute, std::move(why)};
  }

  static bool can_be_planned(const TracedOp& op) {
    return op.can_keep && op.is_rerun && op.bytes > 0 && op.call_index != kNone;
  }

  static bool has_best_rate(const TracedRegion& region, const TracedOp& op) {
    // Compares time per byte without dividing.
    return std::none_of(region.ops.begin(), region.ops.end(), [&](const TracedOp& other) {
      return can_be_planned(other) && other.forward_ms * static_cast<double>(op.bytes) >
                                          op.forward_ms * static_cast<double>(other.bytes);
    });
  }

  /// Whether one more region could keep this result within the budget.
  bool fits(const Run& run, const TracedOp& op) const {
    std::vector<RegionDecision> more = decisions_;
    more[run.first].ops.push_back(
        {.name = op.name, .overload = op.overload, .call_index = op.call_index});
    return predict_peaks(trace_, more, counted_).peak() <= budget_;
  }

  const StepTrace& trace_;
  const std::vector<RegionDecision>& decisions_;
  const int64_t budget_;
  const Counted counted_;
};

}  // namespace

std::vector<PlanRow> explain_plan(const StepTrace& trace,
                                  const std::vector<RegionDecision>& decisions,
                                  int64_t budget,
                                  Counted counted) {
  return Explanation(trace, decisions, budget, counted).rows();
}

}  // namespace reprise::planning
