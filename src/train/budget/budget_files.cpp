#include "train/budget/budget_files.h"

#include "plan/plan_explanation.h"
#include "plan/step_timeline.h"
#include "train/passes.h"

#include <reprise/data/dataset.h>
#include <reprise/io/dtype.h>
#include <reprise/train/memory_report.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

Json key_of(const std::string& role, const ShapePlan& plan) {
  return {{"role", role},
          {"rows", plan.shape.rows},
          {"length", plan.shape.length},
          {"sizes", plan.shape.sizes},
          {"structure", plan.shape.structure},
          {"has_gradients", plan.has_gradients}};
}

ShapePlan plan_of(const PlanEntry& entry) {
  ShapePlan plan;
  plan.shape.rows = entry.key.at("rows").get<int64_t>();
  plan.shape.length = entry.key.at("length").get<int64_t>();
  plan.shape.sizes = entry.key.at("sizes").get<std::vector<int64_t>>();
  plan.shape.structure = entry.key.at("structure").get<std::string>();
  plan.has_gradients = entry.key.at("has_gradients").get<bool>();
  plan.peak_bytes = entry.peak_bytes;
  plan.extra_ms = entry.extra_ms;
  TORCH_CHECK(plan.shape.sizes.size() >= 2, "a key has ", plan.shape.sizes.size(), " sizes");
  plan.step = planning::planned_step(entry.decisions);
  return plan;
}

Json description_of(const PlannedModel& model) {
  return {{"family", model_type(model.model.config().family)},
          {"layers", model.model.config().layers},
          {"dtype", dtype_name(model.model.dtype())},
          {"parameter_bytes", parameter_bytes(model.model)},
          {"budget_of", model.budget.limits().total ? "everything" : "activations"}};
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

void write_plan_file(const std::filesystem::path& path, const std::vector<PlannedModel>& models) {
  const PlannedModel& first = models.front();
  PlanFile file;
  file.model = description_of(first);
  file.device = first.model.device().str();
  file.budget_bytes = first.budget.budget_bytes();
  for (const PlannedModel& each : models) {
    file.fingerprint += (file.fingerprint.empty() ? "" : "+") + plan_fingerprint(each.model);
    for (const auto& plan : each.budget.plans().all()) {
      file.entries.push_back({.key = key_of(each.role, *plan),
                              .peak_bytes = plan->peak_bytes,
                              .extra_ms = plan->extra_ms,
                              .decisions = plan->decisions()});
    }
  }
  write_plan(path, file);
}

PlansRead read_plan_file(const std::filesystem::path& path,
                         const std::string& role,
                         const Model& model) {
  const PlanFile file = read_plan(path);
  const std::string where = path.string();
  TORCH_CHECK(file.fingerprint.find(plan_fingerprint(model)) != std::string::npos,
              where,
              ": these plans are for another model (",
              file.model.dump(),
              "), other weights that are trained, or another type of them. Leave out "
              "--memory_plan to plan anew.");
  TORCH_CHECK(file.device == model.device().str(),
              where,
              ": these plans are for ",
              file.device,
              ", and the model is on ",
              model.device(),
              ", where other kernels run. Leave out --memory_plan to plan anew.");
  PlansRead read;
  read.budget = {.kind = Budget::Kind::Bytes, .bytes = file.budget_bytes};
  read.is_total = file.model.value("budget_of", Json()) == "everything";
  for (const PlanEntry& entry : file.entries) {
    try {
      if (entry.key.at("role") == role) {
        read.plans.push_back(plan_of(entry));
      }
    } catch (const std::exception& error) {
      const auto* own = dynamic_cast<const c10::Error*>(&error);
      TORCH_CHECK(
          false, where, ": ", own != nullptr ? own->what_without_backtrace() : error.what());
    }
  }
  return read;
}

void write_memory_page(const std::filesystem::path& path,
                       const PlannedModel& model,
                       const std::vector<int64_t>& measured) {
  const ShapePlan* plan = largest(model.budget.plans());
  if (plan == nullptr) {
    return;
  }
  const auto decisions = plan->decisions();
  const int64_t above = model.budget.limits().total ? plan->base_bytes : 0;
  const auto& config = model.model.config();
  MemoryReport report;
  report.title = "Memory of a training step" + (model.role.empty() ? "" : ", " + model.role);
  report.model = std::string(model_type(config.family)) + ", " + std::to_string(config.layers) +
                 " blocks, " + dtype_name(model.model.dtype()) + "; micro-batch of " +
                 std::to_string(plan->shape.rows) + " x " + std::to_string(plan->shape.length) +
                 " tokens";
  report.device = model.model.device().str();
  report.budget = model.budget.budget_bytes() - above;
  report.peak_bytes = plan->peak_bytes - above;
  report.extra_ms = plan->extra_ms;
  report.fixed = {{"parameters", parameter_bytes(model.model)},
                  {"gradients", model.budget.gradient_bytes()},
                  {"optimizer", model.budget.optimizer_bytes()}};
  const auto counted = plan->planner->options().counts_gradients ? planning::Counted::WithGradients
                                                                 : planning::Counted::Activations;
  report.timeline = planning::step_timeline(*plan->trace, decisions, counted);
  report.plain_timeline = planning::plain_timeline(*plan->trace, counted);
  if (model.budget.limits().allow_lossy) {
    report.notes.emplace_back(
        "Lossy compression is allowed: gradients are not those of an exact run.");
  }
  report.rows = planning::explain_plan(*plan->trace, decisions, report.budget);
  for (const auto& point : plan->planner->curve()) {
    report.curve.push_back({.peak_bytes = point.peak_bytes, .extra_ms = point.extra_ms});
  }
  for (const int64_t bytes : measured) {
    report.measured_peaks.push_back(bytes - above);
  }
  write_memory_report(path, report);
}

}  // namespace reprise
