#include "train/budget/budget_files.h"

#include "plan/plan_explanation.h"
#include "plan/step_timeline.h"
#include "text/tokenizer/json_fields.h"
#include "train/budget/placement.h"
#include "train/objectives/forward_passes.h"

#include <reprise/data/dataset.h>
#include <reprise/io/dtype.h>
#include <reprise/report/memory_report.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

constexpr int64_t kMostShapeSize = int64_t{1} << 50;

Json key_of(const BudgetedModel& model, const ShapePlan& plan) {
  return {{"role", model.role},
          {"in_host_memory", describe(model.budget.placement())},
          {"budget_bytes", model.budget.budget_bytes()},
          {"rows", plan.shape.rows},
          {"length", plan.shape.length},
          {"sizes", plan.shape.sizes},
          {"structure", plan.shape.structure},
          {"has_gradients", plan.has_gradients}};
}

std::vector<int64_t> sizes_in(const text::JsonFields& key) {
  std::vector<int64_t> sizes;
  for (const Json& size : key.array("sizes")) {
    if (!size.is_number_integer() || size.get<int64_t>() < 0 ||
        size.get<int64_t>() > kMostShapeSize) {
      key.refuse("sizes", "counts", size.dump());
    }
    sizes.push_back(size.get<int64_t>());
  }
  if (sizes.size() < 2) {
    key.refuse("sizes", "at least two", std::to_string(sizes.size()));
  }
  return sizes;
}

ShapePlan plan_of(const PlanEntry& entry, const text::JsonFields& key) {
  ShapePlan plan;
  plan.shape.rows = key.integer("rows", 0, kMostShapeSize);
  plan.shape.length = key.integer("length", 0, kMostShapeSize);
  plan.shape.sizes = sizes_in(key);
  plan.shape.structure = key.string("structure");
  plan.has_gradients = key.boolean("has_gradients");
  plan.peak_bytes = entry.peak_bytes;
  plan.extra_ms = entry.extra_ms;
  plan.step = planning::step_decisions(entry.decisions);
  return plan;
}

Json description_of(const BudgetedModel& model) {
  return {{"family", model.model.config().family},
          {"layers", model.model.config().layers},
          {"dtype", dtype_name(model.model.dtype())},
          {"parameter_bytes", parameter_bytes(model.model)}};
}

const ShapePlan* largest(const ShapePlans& plans) {
  const ShapePlan* found = nullptr;
  for (const auto& plan : plans.all()) {
    const bool is_larger = found == nullptr || plan->peak_bytes > found->peak_bytes;
    if (plan->trace != nullptr && is_larger) {
      found = plan.get();
    }
  }
  return found;
}

// The measured peak by class, and what the same step would take without checkpointing. `gradients`:
// those of earlier micro-batches.
void add_classes(MemoryReport& report,
                 const ShapePlan& plan,
                 const MemoryClasses& most,
                 int64_t gradients) {
  if (most.total() == 0) {
    return;
  }
  const Json classes = most.to_json();
  for (const auto& [name, bytes] : classes.items()) {
    report.measured.push_back({name, bytes.get<int64_t>()});
  }
  const auto counted =
      gradients > 0 ? planning::Counted::Activations : planning::Counted::WithGradients;
  report.plain = {{"parameters", most.parameters},
                  {"optimizer", most.optimizer},
                  {"gradients and activations",
                   gradients + planning::plain_timeline(*plan.trace, counted).peak()}};
}

}  // namespace

std::string plan_fingerprint(const Model& model) {
  Json parameters = Json::array();
  for (const auto& item : model.named_parameters()) {
    parameters.push_back({item.key(),
                          item.value().sizes().vec(),
                          dtype_name(item.value().scalar_type()),
                          item.value().requires_grad()});
  }
  return content_hash({}, {{"parameters", parameters}});
}

void write_plan_file(const std::filesystem::path& path, const std::vector<BudgetedModel>& models) {
  const BudgetedModel& first = models.front();
  PlanFile file;
  file.model = description_of(first);
  file.device = first.model.device().str();
  file.budget_bytes = first.budget.budget_bytes();
  file.is_total = first.budget.limits().total.has_value();
  file.host_bytes = first.budget.limits().host_bytes;
  file.allow_lossy = first.budget.limits().allow_lossy;
  for (const BudgetedModel& each : models) {
    file.fingerprint += (file.fingerprint.empty() ? "" : "+") + plan_fingerprint(each.model);
    for (const auto& plan : each.budget.plans().all()) {
      file.entries.push_back({.key = key_of(each, *plan),
                              .peak_bytes = plan->peak_bytes,
                              .extra_ms = plan->extra_ms,
                              .decisions = plan->decisions()});
    }
  }
  write_plan(path, file);
}

LoadedPlans read_plan_file(const std::filesystem::path& path,
                           const std::string& role,
                           const Model& model) {
  const PlanFile file = read_plan(path);
  const std::string where = path.string();
  TORCH_CHECK(file.fingerprint.find(plan_fingerprint(model)) != std::string::npos,
              where,
              ": these plans are for another model (",
              file.model.dump(),
              "), or for one with other trained weights or dtypes. Leave out `memory_plan` to plan "
              "again.");
  TORCH_CHECK(file.device == model.device().str(),
              where,
              ": these plans are for ",
              file.device,
              ", and the model is on ",
              model.device(),
              ", where other kernels run. Leave out `memory_plan` to plan again.");
  LoadedPlans read;
  read.budget = {.kind = Budget::Kind::Bytes, .bytes = file.budget_bytes};
  read.is_total = file.is_total;
  read.host_bytes = file.host_bytes;
  read.allow_lossy = file.allow_lossy;
  for (const PlanEntry& entry : file.entries) {
    const text::JsonFields key(entry.key, where, "key", "plan");
    if (key.string("role") == role) {
      read.budget.bytes = key.integer("budget_bytes", 1, kMostShapeSize);
      const std::string host = key.optional_string("in_host_memory").value_or("");
      const auto placement = placement_described(host);
      if (!placement) {
        key.refuse("in_host_memory", "gradients or optimizer state", text::describe(host));
      }
      read.host = *placement;
      read.plans.push_back(plan_of(entry, key));
    }
  }
  return read;
}

void write_memory_page(const std::filesystem::path& path,
                       const BudgetedModel& model,
                       const MemoryClasses& most,
                       bool accumulates) {
  const ShapePlan* plan = largest(model.budget.plans());
  if (plan == nullptr) {
    return;
  }
  const auto decisions = plan->decisions();
  const int64_t above = model.budget.limits().total ? plan->base_bytes : 0;
  const auto& config = model.model.config();
  MemoryReport report;
  report.title = "Memory of a training step" + (model.role.empty() ? "" : ", " + model.role);
  report.model = config.family + ", " + std::to_string(config.layers) + " blocks, " +
                 dtype_name(model.model.dtype()) + "; micro-batch of " +
                 std::to_string(plan->shape.rows) + " x " + std::to_string(plan->shape.length) +
                 " tokens";
  report.device = model.model.device().str();
  report.budget = model.budget.budget_bytes() - above;
  report.peak_bytes = plan->peak_bytes - above;
  report.extra_ms = plan->extra_ms;
  const auto counted = plan->planner->options().counted();
  report.fixed = {{"parameters", parameter_bytes(model.model)},
                  {"optimizer", model.budget.optimizer_bytes()}};
  if (counted == planning::Counted::Activations) {
    report.fixed.push_back({"gradients", model.budget.gradient_bytes()});
  } else {
    report.notes.emplace_back("The budget is for all memory; shown are activations and gradients.");
  }
  if (const std::string moved = describe(model.budget.placement()); !moved.empty()) {
    report.notes.push_back("In host memory: " + moved + ".");
  }
  add_classes(report, *plan, most, accumulates ? model.budget.gradient_bytes() : 0);
  report.timeline = planning::step_timeline(*plan->trace, decisions, counted);
  report.plain_timeline = planning::plain_timeline(*plan->trace, counted);
  if (model.budget.limits().allow_lossy) {
    report.notes.emplace_back(
        "Lossy compression is allowed: gradients differ from those of an exact run.");
  }
  report.rows = planning::explain_plan(*plan->trace, decisions, report.budget, counted);
  for (const auto& point : plan->planner->curve()) {
    report.curve.push_back({.peak_bytes = point.peak_bytes, .extra_ms = point.extra_ms});
  }
  for (const int64_t bytes : model.budget.measured()) {
    report.measured_peaks.push_back(bytes - above);
  }
  write_memory_report(path, report);
}

}  // namespace reprise
