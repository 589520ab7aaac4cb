// Predicts what training a model takes, on meta tensors.
#include <reprise/train/model_plan.h>

#include "plan/plan_explanation.h"
#include "plan/step_timeline.h"
#include "train/budget/meta_run.h"
#include "train/budget/model_budget.h"
#include "train/budget/placement.h"
#include "train/budget/shape_curve.h"

#include <reprise/io/dtype.h>
#include "model/generation/kv_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace reprise {

namespace {

// Overhead of the allocator, relative to the bytes of tensors: 1.5 to 6 % on an H200.
constexpr double kMargin = 0.06;
constexpr int64_t kMostRows = 4096, kLongestRow = int64_t{1} << 20;
constexpr int64_t kLargestWorld = 1'000'000;
constexpr int64_t kMostMicroBatches = int64_t{1} << 20;

bool can_be_planned(Objective objective) {
  return objective != Objective::Prm;
}

void check_objective(bool is_known, std::string_view name) {
  TORCH_CHECK(is_known,
              "[plan] expected the objective sft, rm, dpo, kto, kd, grpo or ppo, got \"",
              name,
              "\"");
}

// Bytes are counted in 64 bits. What is far above any device must not come out as a small number.
void check_countable(const ModelConfig& config, const ModelPlanRequest& request) {
  constexpr double kMostBytes = 1e18;
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  const double tokens = real(request.rows) * real(request.length);
  const double heads = real(config.heads) * (real(config.head_dim) + real(request.length));
  const double widths = 8 * real(config.hidden) + 4 * real(config.intermediate) + 4 * heads;
  const double bytes = 8 * tokens * (real(config.layers) * widths + 4 * real(config.vocabulary));
  TORCH_CHECK(bytes <= kMostBytes,
              "[plan] ",
              request.rows,
              " rows of ",
              request.length,
              " tokens in a model of this size take up to ",
              bytes,
              " bytes, more than can be planned. Give fewer or shorter rows");
}

bool can_place(const ModelPlanRequest& request) {
  return request.device.type == c10::kCUDA && !request.world;
}

void check(const ModelPlanRequest& request) {
  check_objective(can_be_planned(request.objective), to_string(request.objective));
  TORCH_CHECK(request.rows > 0 && request.length > 1 && request.accumulation > 0,
              "[plan] expected at least 1 row, 2 tokens per row and 1 micro-batch, got ",
              request.rows,
              ", ",
              request.length,
              " and ",
              request.accumulation);
  TORCH_CHECK(request.rows <= kMostRows && request.length <= kLongestRow &&
                  request.accumulation <= kMostMicroBatches,
              "[plan] expected at most ",
              kMostRows,
              " rows of ",
              kLongestRow,
              " tokens and ",
              kMostMicroBatches,
              " micro-batches, got ",
              request.rows,
              " of ",
              request.length,
              " and ",
              request.accumulation);
  check_countable(request.config, request);
  if (request.teacher) {
    check_countable(*request.teacher, request);
  }
  const bool is_kd = request.objective == Objective::Kd;
  TORCH_CHECK(is_kd == request.teacher.has_value(),
              is_kd ? "[plan] kd learns from a teacher: give its configuration."
                    : "[plan] a teacher has no effect: it is for kd.");
  TORCH_CHECK(!request.world || (request.world->size > 0 && request.world->size <= kLargestWorld),
              "[plan] expected a world of 1 to ",
              kLargestWorld,
              " processes, got ",
              request.world ? request.world->size : 0);
  TORCH_CHECK(!request.world || request.world->strategy == Parallel::Ddp ||
                  !updates_whole_parameters(request.optimizer.kind),
              "[plan] ",
              name_of(request.optimizer.kind),
              " updates whole parameters: expected ddp, got ",
              request.world ? name_of(request.world->strategy) : "");
  TORCH_CHECK(
      can_place(request) || request.optimizer.host == Placement{},
      "[plan] optimizer state and gradients in host memory are for a GPU, and for one process.");
  const auto& limits = request.limits;
  TORCH_CHECK(limits.host_bytes == 0 && !limits.allow_lossy && limits.plan_file.empty(),
              "[plan] a host budget, lossy compression and a file of plans have no effect here: a "
              "predicted plan only keeps or recomputes. Leave them out.");
}

// Takes about a dozen points, evenly spaced in bytes, and always the first, the last and the chosen
// one.
void fill_curve(ModelPlan& plan, const ShapeCurve& shape) {
  constexpr int64_t kPoints = 11;
  const auto& all = shape.curve();
  const auto* chosen = &shape.plan_for(plan.budget);
  int64_t next = all.front().peak_bytes;
  const int64_t step =
      std::max<int64_t>(1, (all.back().peak_bytes - all.front().peak_bytes) / (kPoints - 1));
  for (const auto& point : all) {
    const bool is_end = &point == &all.front() || &point == &all.back();
    if (!is_end && &point != chosen && point.peak_bytes < next) {
      continue;
    }
    while (next <= point.peak_bytes) {
      next += step;
    }
    if (&point == chosen) {
      plan.chosen = plan.curve.size();
    }
    plan.curve.push_back(shape.estimate(point));
  }
}

void fill_batches(ModelPlan& plan, MetaRun& run, const ModelPlanRequest& request) {
  const int64_t left = plan.device_bytes - plan.standing.sum();
  for (int64_t rows = 1; rows <= kMostRows; rows *= 2) {
    const ShapeCurve shape(run, request, rows);
    if (shape.least_bytes() > left) {
      break;
    }
    plan.batches.push_back(shape.estimate(shape.plan_for(left)));
    if (plan.batches[plan.fastest].tokens_per_second < plan.batches.back().tokens_per_second) {
      plan.fastest = plan.batches.size() - 1;
    }
  }
}

/// The largest count up to `most` that fits, accurate to about a thirtieth. `low` must fit.
int64_t largest_that_fits(int64_t low, int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t high = 2 * low;
  while (high <= most && fits(high)) {
    low = std::exchange(high, high * 2);
  }
  high = std::min(high, most + 1);
  while (high - low > std::max<int64_t>(1, low / 32)) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

void find_limits(ModelPlan& plan, MetaRun& run, const ModelPlanRequest& request) {
  if (plan.batches.empty()) {
    return;
  }
  const int64_t left = plan.device_bytes - plan.standing.sum();
  // The trace recomputes each block by itself; plans may join blocks, and take less.
  const auto fits = [&](int64_t rows, int64_t length) {
    const auto trace = run.step(rows, length).trace;
    return trace.peak <= left ||
           planning::StepPlanner(trace, planner_options(request)).least_bytes() <= left;
  };
  plan.most_rows = largest_that_fits(plan.batches.back().rows, kMostRows, [&](int64_t rows) {
    return fits(rows, request.length);
  });
  constexpr int64_t kPiece = 128;
  const int64_t most = std::min(run.most_positions(), kLongestRow) / kPiece;
  if (most > 0 && fits(request.rows, kPiece)) {
    plan.longest_row = kPiece * largest_that_fits(1, most, [&](int64_t pieces) {
                         return fits(request.rows, pieces * kPiece);
                       });
  }
}

MemoryReport report_of(const ModelPlanRequest& request,
                       const ModelPlan& plan,
                       const ShapeCurve& shape) {
  const auto& chosen = shape.plan_for(plan.budget);
  MemoryReport report;
  report.title = "Memory of a training step, predicted";
  report.model = request.config.family + ", " + std::to_string(request.config.layers) +
                 " blocks, " + dtype_name(request.dtype) + "; micro-batch of " +
                 std::to_string(request.rows) + " x " + std::to_string(request.length) + " tokens";
  report.device = request.device.name;
  report.budget = plan.budget;
  report.peak_bytes = chosen.peak_bytes;
  report.extra_ms = chosen.extra_ms;
  report.fixed = {{"parameters", plan.standing.parameters},
                  {"frozen models", plan.standing.frozen},
                  {"gradients", plan.standing.gradients},
                  {"optimizer", plan.standing.optimizer},
                  {"gathered units", plan.standing.gathered},
                  {"gradients on their way", plan.standing.reductions}};
  std::erase_if(report.fixed, [](const FixedMemory& part) { return part.bytes == 0; });
  report.timeline = planning::step_timeline(shape.trace(), chosen.decisions);
  report.plain_timeline = planning::plain_timeline(shape.trace());
  report.rows = planning::explain_plan(shape.trace(), chosen.decisions, plan.budget);
  for (const auto& point : shape.curve()) {
    report.curve.push_back({.peak_bytes = point.peak_bytes, .extra_ms = point.extra_ms});
  }
  report.notes.emplace_back("Predicted from the configuration; times are a roofline's.");
  return report;
}

int64_t usable_bytes(const DeviceProfile& device) {
  return std::llround(static_cast<double>(device.memory_bytes) * (1 - kMargin));
}

}  // namespace

Objective parse_planned_objective(std::string_view name) {
  const auto objective = parse_objective(name);
  check_objective(objective && can_be_planned(*objective), name);
  return *objective;
}

namespace {

ModelPlan plan_placed(const ModelPlanRequest& request) {
  MetaRun run(request);
  ModelPlan plan;
  plan.standing = run.standing();
  plan.host = request.optimizer.host;
  plan.device_type = request.device.type;
  plan.device_bytes = usable_bytes(request.device);
  const ShapeCurve shape(run, request, request.rows);
  plan.loss_bytes = shape.trace().head_peak;
  const bool generates =
      request.objective == Objective::Grpo || request.objective == Objective::Ppo;
  if (generates) {
    plan.cache_bytes =
        KvCache::bytes_per_position(request.config, request.dtype) * request.rows * request.length;
  }
  plan.budget = activation_budget(request, plan, shape);
  fill_curve(plan, shape);
  fill_batches(plan, run, request);
  find_limits(plan, run, request);
  plan.report = report_of(request, plan, shape);
  return plan;
}

ModelPlanRequest with_host(ModelPlanRequest request, const Placement& host) {
  request.optimizer.host = host;
  return request;
}

/// The placements that a run would try, in its order.
std::vector<Placement> tried(const ModelPlanRequest& request, const Placement& least) {
  const auto on_device = with_host(request, {});
  return placements(MetaRun(on_device).placed(), least, request.limits);
}

std::vector<Placement> all_placements(ModelPlanRequest request) {
  request.limits = {};
  return tried(request, {});
}

PlacementEstimate estimate_of(const ModelPlanRequest& asked, const Placement& host) {
  const auto request = with_host(asked, host);
  MetaRun run(request);
  const ShapeCurve shape(run, request, request.rows);
  const auto& standing = run.standing();
  const int64_t without = standing.kept() + standing.gradients;
  const int64_t left = usable_bytes(request.device) - standing.sum();
  PlacementEstimate estimate{
      .host = host,
      .least_bytes = without + std::max(shape.least_bytes(), standing.update),
      .host_bytes = standing.host,
      .moved_bytes = run.placed().moved(host)};
  estimate.fits = shape.least_bytes() <= left && standing.update <= left;
  if (estimate.fits) {
    estimate.fastest = shape.estimate(shape.plan_for(left));
  }
  return estimate;
}

}  // namespace

ModelPlan plan_model(const ModelPlanRequest& request) {
  check(request);
  if (!can_place(request)) {
    return plan_placed(request);
  }
  std::vector<Placement> places = {request.optimizer.host};
  if (request.limits.total) {
    places = tried(request, request.optimizer.host);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    try {
      ModelPlan plan = plan_placed(with_host(request, places[i]));
      for (const Placement& each : all_placements(request)) {
        plan.placements.push_back(estimate_of(request, each));
      }
      return plan;
    } catch (const c10::OutOfMemoryError&) {
      if (i + 1 == places.size()) {
        throw;
      }
    }
  }
  TORCH_INTERNAL_ASSERT(false, "there is at least one placement");
}

}  // namespace reprise
