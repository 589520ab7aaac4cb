// The commands of the reprise program: each adds itself to the command line, with a callback that
// runs it. A callback throws what went wrong; main() prints it.
#pragma once

#include <CLI/CLI.hpp>

namespace reprise::app {

void add_chat(CLI::App& app);
void add_demo(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_init(CLI::App& app);
void add_inspect(CLI::App& app);
void add_launch(CLI::App& app);
void add_merge(CLI::App& app);
void add_plan(CLI::App& app);
void add_score(CLI::App& app);
void add_tokenize(CLI::App& app);
/// sft, rm, prm, dpo, kto, kd, grpo, ppo.
void add_training_commands(CLI::App& app);

}  // namespace reprise::app
