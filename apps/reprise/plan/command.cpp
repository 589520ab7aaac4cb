// `reprise plan`: the memory and time that training a model takes on a device, before either is
// available. The library computes it (train/model_plan.h).
#include "reprise/commands.h"
#include "reprise/plan/plan_flags.h"
#include "reprise/plan/plan_request.h"
#include "reprise/plan/plan_text.h"

#include <reprise/report/memory_report.h>
#include <reprise/train/model_plan.h>

#include <c10/util/StringUtil.h>

#include <iostream>

namespace reprise::app {

namespace {

void run_plan(const PlanFlags& flags) {
  for (const std::string& note : flags.training.notes) {
    std::cerr << note << "\n";
  }
  const auto request = plan_request(flags);
  choose_attention(flags.training.attention, request);
  if (!flags.not_planned.empty()) {
    std::cerr << "the plan does not account for these settings of the --config file: "
              << c10::Join(", ", flags.not_planned) << "\n";
  }
  const auto plan = plan_model(request);
  const auto command = training_command(flags, plan);
  if (!flags.html.empty()) {
    write_memory_report(flags.html, plan.report);
  }
  if (flags.json) {
    std::cout << plan_json(request, plan, command).dump(2) << "\n";
    return;
  }
  print_plan(request, plan, std::cout);
  std::cout << "\n" << command << "\n";
}

}  // namespace

void add_plan(CLI::App& app) {
  auto* command = app.add_subcommand(
      "plan",
      "Predict memory and speed of training a model on a device, from its config.json alone.");
  const auto flags = add_plan_flags(*command);
  command->callback([command, flags] {
    finish_plan_flags(*command, *flags);
    run_plan(*flags);
  });
}

}  // namespace reprise::app
