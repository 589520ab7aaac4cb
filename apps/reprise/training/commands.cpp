// The training commands: one per objective, all of them flags in front of one of two loops.
#include "reprise/commands.h"
#include "reprise/training/flag_spec.h"
#include "reprise/training/flags.h"
#include "reprise/training/run_online.h"
#include "reprise/training/run_training.h"
#include "reprise/training/run_world.h"

#include <memory>
#include <string>

namespace reprise::app {

namespace {

CLI::App* add_training(CLI::App& app,
                       Objective objective,
                       const std::string& name,
                       const std::string& description) {
  auto* command = app.add_subcommand(name, description);
  const auto flags = add_training_flags(*command, objective);
  command->callback([command, flags] {
    finish_flags(*command, *flags);
    const Json configuration = resolved_configuration(*flags);
    const RunWorld world(*flags, configuration);
    world.reporting_failure([&] {
      if (is_online(flags->objective)) {
        run_online(*flags, configuration, world);
      } else {
        run_training(*flags, configuration, world);
      }
    });
  });
  return command;
}

}  // namespace

void add_training_commands(CLI::App& app) {
  add_training(app, Objective::Sft, "sft", "Train a model on texts, answers or conversations.");
  add_training(app, Objective::Rm, "rm", "Train a reward model on pairs of responses.")
      ->alias("reward");
  add_training(app, Objective::Prm, "prm", "Train a model that judges each step of an answer.");
  add_training(app, Objective::Dpo, "dpo", "Prefer one response to another: DPO and its family.");
  add_training(app, Objective::Kto, "kto", "Learn from single responses, wanted or not: KTO.");
  add_training(app, Objective::Kd, "kd", "Learn from a teacher's probabilities: distillation.");
  add_training(
      app, Objective::Grpo, "grpo", "Answer prompts and learn from rewards: GRPO, RLOO, ...");
  add_training(app, Objective::Ppo, "ppo", "Answer prompts and learn from rewards, with a critic.");
}

}  // namespace reprise::app
