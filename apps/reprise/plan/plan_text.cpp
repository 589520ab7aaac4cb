#include "reprise/plan/plan_text.h"

#include <reprise/report/units.h>

#include <iomanip>
#include <ostream>
#include <sstream>

namespace reprise::app {

namespace {

std::string bytes(int64_t count) {
  return human_bytes(static_cast<double>(count));
}

void print_row(std::ostream& out,
               const std::string& name,
               const std::string& value,
               const std::string& note = "") {
  out << "  " << std::left << std::setw(34) << name << std::right << std::setw(9) << value
      << (note.empty() ? "" : "  " + note) << "\n";
}

std::string other_models(const ModelPlanRequest& request) {
  switch (request.objective) {
    case Objective::Kd:
      return "teacher";
    case Objective::Ppo:
      return request.lora ? "critic" : "critic and reference";
    default:
      return "reference";
  }
}

std::string host_name(const Placement& host) {
  return host.state && host.gradients ? "optimizer, gradients"
         : host.state                 ? "optimizer"
         : host.gradients             ? "gradients"
                                      : "nothing";
}

void print_bytes(const ModelPlan& plan, const ModelPlanRequest& request, std::ostream& out) {
  const auto& standing = plan.standing;
  const auto& chosen = plan.curve[plan.chosen];
  out << "Memory on " << request.device.name << " (" << bytes(request.device.memory_bytes) << "), ";
  if (request.world) {
    out << "for each of " << request.world->size << " (" << name_of(request.world->strategy)
        << "), ";
  }
  out << request.rows << " x " << request.length << " tokens:\n";
  print_row(out, "parameters", bytes(standing.parameters));
  if (standing.frozen > 0) {
    print_row(out, other_models(request), bytes(standing.frozen));
  }
  print_row(out, "gradients", bytes(standing.gradients));
  print_row(out, "optimizer", bytes(standing.optimizer));
  if (request.world) {
    print_row(out, "  kept between steps", bytes(standing.kept()));
    print_row(out, "gathered parameters, peak", bytes(standing.gathered));
    print_row(out, "gradients in reduction, peak", bytes(standing.reductions));
  }
  print_row(out, "activations, planned", bytes(chosen.activation_bytes));
  print_row(out, "  without checkpointing", bytes(plan.plain().activation_bytes));
  print_row(out, "  minimum", bytes(plan.least().activation_bytes));
  print_row(out, "  head and loss", bytes(plan.loss_bytes));
  print_row(out, "total, peak", bytes(standing.sum() + chosen.activation_bytes));
  if (standing.host > 0) {
    print_row(out, "in host memory", bytes(standing.host), host_name(plan.host));
  }
  if (plan.cache_bytes > 0) {
    print_row(out, "KV cache while generating", bytes(plan.cache_bytes), "not at the same time");
  }
}

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

void print_step(std::ostream& out,
                const std::string& first,
                const StepEstimate& step,
                const std::string& note) {
  out << "  " << std::setw(9) << first << std::setw(11) << fixed(step.step_ms, 1) << std::setw(9)
      << fixed(step.slowdown, 3) << std::setw(12) << human_count(step.tokens_per_second)
      << std::setw(7) << step.plain_blocks << std::setw(7) << step.mixed_blocks << note << "\n";
}

void print_heading(std::ostream& out, const std::string& first) {
  out << "  " << std::right << std::setw(9) << first << std::setw(11) << "step ms" << std::setw(9)
      << "ratio" << std::setw(12) << "tokens/s" << std::setw(7) << "plain" << std::setw(7)
      << "mixed"
      << "\n";
}

void print_curve(const ModelPlan& plan, std::ostream& out) {
  out << "\nActivation memory against time of a step (ratio: to no checkpointing; plain: blocks "
         "that "
         "store everything; mixed: blocks that store some results):\n";
  print_heading(out, "bytes");
  for (size_t i = 0; i < plan.curve.size(); ++i) {
    print_step(out,
               bytes(plan.curve[i].activation_bytes),
               plan.curve[i],
               i == plan.chosen ? "  <- within " + bytes(plan.budget) : "");
  }
}

void print_batches(const ModelPlan& plan, const ModelPlanRequest& request, std::ostream& out) {
  out << "\nMicro-batches with rows of " << request.length << " tokens that fit the device:\n";
  if (plan.batches.empty()) {
    out << "  none\n";
    return;
  }
  print_heading(out, "rows");
  for (size_t i = 0; i < plan.batches.size(); ++i) {
    print_step(out,
               std::to_string(plan.batches[i].rows),
               plan.batches[i],
               i == plan.fastest ? "  <- fastest" : "");
  }
  out << "  at most about " << plan.most_rows << " rows of " << request.length << " tokens, or "
      << request.rows << " of " << plan.longest_row << "\n";
  if (request.world) {
    out << "\nRows, times and tokens are of one process; the time it waits for others is not "
           "included.\n";
  }
}

void print_placements(const ModelPlan& plan, const ModelPlanRequest& request, std::ostream& out) {
  if (plan.placements.empty()) {
    return;
  }
  out << "\nOptimizer state and gradients in host memory (--optimizer_offload, "
         "--gradient_offload): the "
         "least memory, and the fastest step on "
      << request.device.name << ":\n  " << std::left << std::setw(22) << "in host memory"
      << std::right << std::setw(11) << "least" << std::setw(11) << "host" << std::setw(14)
      << "moved a step" << std::setw(11) << "step ms" << std::setw(12) << "tokens/s"
      << "\n";
  for (const auto& each : plan.placements) {
    out << "  " << std::left << std::setw(22) << host_name(each.host) << std::right << std::setw(11)
        << bytes(each.least_bytes) << std::setw(11) << bytes(each.host_bytes) << std::setw(14)
        << bytes(each.moved_bytes);
    if (each.fits) {
      out << std::setw(11) << fixed(each.fastest.step_ms, 1) << std::setw(12)
          << human_count(each.fastest.tokens_per_second);
    } else {
      out << "  does not fit";
    }
    out << "\n";
  }
}

Json to_json(const PlacementEstimate& place) {
  Json json = {{"optimizer_offload", place.host.state},
               {"gradient_offload", place.host.gradients},
               {"least_bytes", place.least_bytes},
               {"host_bytes", place.host_bytes},
               {"moved_bytes", place.moved_bytes},
               {"fits", place.fits}};
  if (place.fits) {
    json["step_ms"] = place.fastest.step_ms;
    json["tokens_per_second"] = place.fastest.tokens_per_second;
  }
  return json;
}

Json to_json(const std::vector<PlacementEstimate>& places) {
  Json list = Json::array();
  for (const auto& place : places) {
    list.push_back(to_json(place));
  }
  return list;
}

Json to_json(const StepEstimate& step) {
  return {{"rows", step.rows},
          {"activation_bytes", step.activation_bytes},
          {"step_ms", step.step_ms},
          {"slowdown", step.slowdown},
          {"tokens_per_second", step.tokens_per_second},
          {"plain_blocks", step.plain_blocks},
          {"mixed_blocks", step.mixed_blocks}};
}

Json to_json(const std::vector<StepEstimate>& steps) {
  Json list = Json::array();
  for (const auto& step : steps) {
    list.push_back(to_json(step));
  }
  return list;
}

}  // namespace

void print_plan(const ModelPlanRequest& request, const ModelPlan& plan, std::ostream& out) {
  print_bytes(plan, request, out);
  print_curve(plan, out);
  print_placements(plan, request, out);
  print_batches(plan, request, out);
}

Json plan_json(const ModelPlanRequest& request, const ModelPlan& plan, const std::string& command) {
  return {{"device", request.device.name},
          {"device_bytes", request.device.memory_bytes},
          {"parameter_bytes", plan.standing.parameters},
          {"frozen_bytes", plan.standing.frozen},
          {"gradient_bytes", plan.standing.gradients},
          {"optimizer_bytes", plan.standing.optimizer},
          {"gathered_bytes", plan.standing.gathered},
          {"reduction_bytes", plan.standing.reductions},
          {"host_bytes", plan.standing.host},
          {"update_bytes", plan.standing.update},
          {"optimizer_offload", plan.host.state},
          {"gradient_offload", plan.host.gradients},
          {"placements", to_json(plan.placements)},
          {"kept_bytes", plan.standing.kept()},
          {"peak_bytes", plan.standing.sum() + plan.curve[plan.chosen].activation_bytes},
          {"world", request.world ? request.world->size : 1},
          {"loss_bytes", plan.loss_bytes},
          {"cache_bytes", plan.cache_bytes},
          {"budget", plan.budget},
          {"chosen", to_json(plan.curve[plan.chosen])},
          {"curve", to_json(plan.curve)},
          {"batches", to_json(plan.batches)},
          {"most_rows", plan.most_rows},
          {"longest_row", plan.longest_row},
          {"command", command}};
}

}  // namespace reprise::app
