#include <reprise/train/model_plan.h>

#include "plan/plan_explanation.h"
#include "plan/step_planner.h"
#include "plan/step_timeline.h"
#include "plan/trace_peaks.h"
#include "train/planned_run.h"

#include <reprise/io/dtype.h>
#include <reprise/model/kv_cache.h>
#include <reprise/train/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace reprise {

namespace {

// What an allocator takes beyond what tensors ask for: 1.5 to 6 % on an H200.
constexpr double kMargin = 0.06;
constexpr int64_t kMostRows = 4096, kLongestRow = int64_t{1} << 20;
constexpr int64_t kLargestWorld = 1'000'000;

/// What the planner would measure on the device if it were here.
planning::PlannerOptions planner_options(const DeviceProfile& device) {
  // Compressing reads a tensor and writes the smaller form; restoring does the reverse.
  constexpr double kPasses = 3, kNanoseconds = 1e9;
  const planning::Pace pace{.ns = 2 * device.launch_ns,
                            .ns_per_byte = kPasses * kNanoseconds / device.memory_speed};
  return {.speeds = planning::DeviceSpeeds{.link = {.out_bytes_per_second = device.link_speed,
                                                    .in_bytes_per_second = device.link_speed},
                                           .masks = pace,
                                           .floating = pace}};
}

/// What runs in several processes can choose from, which have no budgets: every block computed
/// again, or none.
std::vector<planning::StepPlan> simple_plans(const planning::StepTrace& trace) {
  planning::StepPlan again, plain;
  for (const auto& region : trace.regions) {
    again.decisions.push_back({.name = region.name});
    again.extra_ms += region.recompute_ms;
    plain.decisions.push_back({.name = region.name, .is_plain = true});
  }
  again.peak_bytes = planning::predict_peaks(trace, again.decisions).peak();
  plain.peak_bytes = planning::predict_peaks(trace, plain.decisions).peak();
  if (again.peak_bytes >= plain.peak_bytes) {
    return {plain};
  }
  return {again, plain};
}

/// Plans of one shape of batch.
class PlannedShape {
 public:
  PlannedShape(PlannedRun& run, const ModelPlanRequest& request, int64_t rows)
      : rows_(rows),
        predicted_(run.step(rows, request.length)),
        curve_(request.world
                   ? simple_plans(predicted_.trace)
                   : planning::StepPlanner(predicted_.trace, planner_options(request.device))
                         .curve()) {
    plain_ms_ = predicted_.plain_ms;
    tokens_ = static_cast<double>(run.tokens(rows, request.length) * request.accumulation);
    accumulation_ = static_cast<double>(request.accumulation);
    update_ms_ = run.update_ms();
  }

  const planning::StepTrace& trace() const { return predicted_.trace; }
  /// From the smallest peak (slowest) to the largest (fastest).
  const std::vector<planning::StepPlan>& curve() const { return curve_; }
  int64_t least_bytes() const { return curve_.front().peak_bytes; }
  int64_t most_bytes() const { return curve_.back().peak_bytes; }

  /// The fastest within a budget that is no less than the least.
  const planning::StepPlan& plan_for(int64_t budget) const {
    const auto too_large = std::find_if(curve_.begin() + 1, curve_.end(), [&](const auto& plan) {
      return plan.peak_bytes > budget;
    });
    return *(too_large - 1);
  }

  PlannedStep describe(const planning::StepPlan& plan) const {
    constexpr double kSeconds = 1e-3;
    const auto ms = [&](double extra) { return (plain_ms_ + extra) * accumulation_ + update_ms_; };
    PlannedStep step;
    step.rows = rows_;
    step.activation_bytes = plan.peak_bytes;
    step.step_ms = ms(plan.extra_ms);
    step.slowdown = step.step_ms / ms(0);
    step.tokens_per_second = tokens_ / (step.step_ms * kSeconds);
    size_t joined_end = 0;
    for (size_t i = 0; i < plan.decisions.size(); ++i) {
      const RegionDecision& decision = plan.decisions[i];
      joined_end = decision.joined > 0 ? i + decision.joined + 1 : joined_end;
      step.plain_blocks += decision.is_plain && i >= joined_end ? 1 : 0;
      step.mixed_blocks += !decision.is_plain && !decision.ops.empty() ? 1 : 0;
    }
    return step;
  }

 private:
  int64_t rows_;
  planning::PredictedStep predicted_;
  std::vector<planning::StepPlan> curve_;
  double plain_ms_ = 0, update_ms_ = 0, tokens_ = 0, accumulation_ = 1;
};

void check(const ModelPlanRequest& request) {
  TORCH_CHECK(request.rows > 0 && request.length > 1 && request.accumulation > 0,
              "[plan] expected at least 1 row, 2 tokens in it and 1 micro-batch, got ",
              request.rows,
              ", ",
              request.length,
              " and ",
              request.accumulation);
  TORCH_CHECK(request.rows <= kMostRows && request.length <= kLongestRow,
              "[plan] expected at most ",
              kMostRows,
              " rows of ",
              kLongestRow,
              " tokens, got ",
              request.rows,
              " of ",
              request.length);
  const bool is_kd = request.objective == PlannedObjective::Kd;
  TORCH_CHECK(is_kd == request.teacher.has_value(),
              is_kd ? "[plan] kd learns from a teacher: give its configuration."
                    : "[plan] a teacher has no effect: it is for kd.");
  TORCH_CHECK(!request.world || (request.world->size > 0 && request.world->size <= kLargestWorld),
              "[plan] expected a world of 1 to ",
              kLargestWorld,
              " processes, got ",
              request.world ? request.world->size : 0);
  const auto& limits = request.limits;
  TORCH_CHECK(limits.host_bytes == 0 && !limits.allow_lossy && limits.plan_file.empty(),
              "[plan] a host budget, lossy compression and a file of plans have no effect on a "
              "plan without the device, which keeps and computes again: leave them out.");
}

/// Activation bytes that a budget means.
int64_t bytes_of(const Budget& budget, const PlannedShape& shape, int64_t automatic) {
  switch (budget.kind) {
    case Budget::Kind::Bytes:
      return budget.bytes;
    case Budget::Kind::Fraction:
      return std::llround(budget.fraction * static_cast<double>(shape.most_bytes()));
    case Budget::Kind::Min:
      return shape.least_bytes();
    case Budget::Kind::Max:
      return shape.most_bytes();
    case Budget::Kind::Auto:
      break;
  }
  return automatic;
}

std::string human(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

int64_t budget_of(const ModelPlanRequest& request,
                  const ModelPlan& plan,
                  const PlannedShape& shape) {
  const int64_t left = plan.device_bytes - plan.standing.sum();
  const auto& limits = request.limits;
  const auto check_device = [&](const char* what, int64_t bytes) {
    TORCH_CHECK(bytes <= request.device.memory_bytes,
                "[plan] a budget of ",
                human(bytes),
                " for ",
                what,
                " is more than the memory of ",
                request.device.name,
                ", ",
                human(request.device.memory_bytes));
  };
  if (limits.activations && limits.activations->kind == Budget::Kind::Bytes) {
    check_device("activations", limits.activations->bytes);
  }
  int64_t budget = limits.activations ? bytes_of(*limits.activations, shape, left) : left;
  if (limits.total) {
    const auto kind = limits.total->kind;
    TORCH_CHECK(kind == Budget::Kind::Bytes || kind == Budget::Kind::Auto,
                "[plan] the budget of everything is bytes, such as 40GiB, or auto; got ",
                limits.total->describe());
    const int64_t total = kind == Budget::Kind::Bytes ? limits.total->bytes : plan.device_bytes;
    check_device("everything", total);
    budget = std::min(budget, total - plan.standing.sum());
  }
  const int64_t least = shape.least_bytes();
  const bool is_said = limits.activations && limits.activations->kind != Budget::Kind::Auto;
  TORCH_CHECK(budget >= least,
              "[plan] no plan fits: the activations of ",
              request.rows,
              " x ",
              request.length,
              " tokens take at least ",
              human(least),
              " (",
              least,
              "B), and ",
              is_said ? "the budget is " : "what is left for them is ",
              human(std::max<int64_t>(budget, 0)),
              "; everything else takes ",
              human(plan.standing.sum()),
              " of ",
              request.device.name,
              "'s ",
              human(request.device.memory_bytes),
              ". Use fewer or shorter rows, LoRA, more processes under fsdp, or a larger budget.");
  const int64_t taken = shape.plan_for(budget).peak_bytes + plan.standing.sum();
  TORCH_CHECK(taken <= request.device.memory_bytes,
              "[plan] a budget of ",
              human(budget),
              " for activations does not fit: with everything else the step takes ",
              human(taken),
              ", and ",
              request.device.name,
              " has ",
              human(request.device.memory_bytes),
              ". Use at most ",
              human(std::max<int64_t>(left, 0)));
  return budget;
}

// Of all points about a dozen, evenly in bytes; first, last and the chosen one always.
void fill_curve(ModelPlan& plan, const PlannedShape& shape) {
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
    plan.curve.push_back(shape.describe(point));
  }
}

void fill_batches(ModelPlan& plan, PlannedRun& run, const ModelPlanRequest& request) {
  const int64_t left = plan.device_bytes - plan.standing.sum();
  for (int64_t rows = 1; rows <= kMostRows; rows *= 2) {
    const PlannedShape shape(run, request, rows);
    if (shape.least_bytes() > left) {
      break;
    }
    plan.batches.push_back(shape.describe(shape.plan_for(left)));
    if (plan.batches[plan.fastest].tokens_per_second < plan.batches.back().tokens_per_second) {
      plan.fastest = plan.batches.size() - 1;
    }
  }
}

/// The largest count whose step fits, to about a thirtieth, from one that does, up to `most`.
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

void find_limits(ModelPlan& plan, PlannedRun& run, const ModelPlanRequest& request) {
  if (plan.batches.empty()) {
    return;
  }
  const int64_t left = plan.device_bytes - plan.standing.sum();
  const auto fits = [&](int64_t rows, int64_t length) {
    return run.step(rows, length).trace.peak <= left;
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
                       const PlannedShape& shape) {
  const auto& chosen = shape.plan_for(plan.budget);
  MemoryReport report;
  report.title = "Memory of a training step, predicted";
  report.model = std::string(model_type(request.config.family)) + ", " +
                 std::to_string(request.config.layers) + " blocks, " + dtype_name(request.dtype) +
                 "; micro-batch of " + std::to_string(request.rows) + " x " +
                 std::to_string(request.length) + " tokens";
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

}  // namespace

PlannedObjective parse_planned_objective(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {
      "sft", "rm", "dpo", "kto", "kd", "grpo", "ppo"};
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  TORCH_CHECK(found != kNames.end(),
              "[plan] expected the objective sft, rm, dpo, kto, kd, grpo or ppo, got \"",
              name,
              "\"");
  return static_cast<PlannedObjective>(found - kNames.begin());
}

ModelPlan plan_model(const ModelPlanRequest& request) {
  check(request);
  PlannedRun run(request);
  ModelPlan plan;
  plan.standing = run.standing();
  plan.device_type = request.device.type;
  plan.device_bytes =
      std::llround(static_cast<double>(request.device.memory_bytes) * (1 - kMargin));
  const PlannedShape shape(run, request, request.rows);
  plan.loss_bytes = shape.trace().head_peak;
  const bool generates =
      request.objective == PlannedObjective::Grpo || request.objective == PlannedObjective::Ppo;
  if (generates) {
    plan.cache_bytes =
        KvCache::bytes_per_position(request.config, request.dtype) * request.rows * request.length;
  }
  plan.budget = budget_of(request, plan, shape);
  fill_curve(plan, shape);
  fill_batches(plan, run, request);
  find_limits(plan, run, request);
  plan.report = report_of(request, plan, shape);
  return plan;
}

}  // namespace reprise
