// The commands of the reprise program. Each add_ function declares one, with a callback that runs
// it. Callbacks throw on errors, and main() prints them.
#pragma once

#include <CLI/CLI.hpp>

namespace reprise::app {

void add_chat(CLI::App& app);
void add_demo(CLI::App& app);
void add_export(CLI::App& app);
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
