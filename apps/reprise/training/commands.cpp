// The training commands, one per objective. Each reads its flags and runs one of two loops.
#include "reprise/commands.h"
#include "reprise/training/flags/flag_spec.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_online.h"
#include "reprise/training/run/run_training.h"
#include "reprise/training/run/run_world.h"

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
  add_training(
      app, Objective::Sft, "sft", "Supervised fine-tuning on text, completions or conversations.");
  add_training(app, Objective::Rm, "rm", "Train a reward model on pairs of responses.")
      ->alias("reward");
  add_training(app,
               Objective::Prm,
               "prm",
               "Train a process reward model, which judges each step of an answer.");
  add_training(app,
               Objective::Dpo,
               "dpo",
               "Preference optimisation on pairs of responses: DPO and its variants.");
  add_training(app,
               Objective::Kto,
               "kto",
               "Preference optimisation on single responses, desirable or not: KTO.");
  add_training(app, Objective::Kd, "kd", "Knowledge distillation from a teacher model.");
  add_training(app,
               Objective::Grpo,
               "grpo",
               "Reinforcement learning without a critic: GRPO, RLOO, REINFORCE++.");
  add_training(app, Objective::Ppo, "ppo", "Reinforcement learning with a critic: PPO.");
}

}  // namespace reprise::app
