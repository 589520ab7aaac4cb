// The command line of `reprise plan`: training's flags, short names, and a training.yaml.
#include "reprise/plan/plan_flags.h"

#include "app/training.h"
#include "app/training_flags.h"
#include "reprise/plan/plan_table.h"
#include "reprise/training/flags/flag_table.h"

#include <reprise/device_profile.h>

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using app::PlanFlags;

/// `reprise plan words...`
PlanFlags parse_plan(Words words) {
  CLI::App program;
  program.require_subcommand(1);
  CLI::App* command = program.add_subcommand("plan", "");
  const auto flags = app::add_plan_flags(*command);
  words.insert(words.begin(), "plan");
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  program.parse(words);
  app::finish_plan_flags(*command, *flags);
  return *flags;
}

PlanFlags parse_plan_of(const std::string& yaml, Words words = {}) {
  const ConfigFile file(yaml);
  words.insert(words.end(), {"--config", file.path()});
  return parse_plan(std::move(words));
}

void expect_plan_refused(const Words& words, const std::string& reason) {
  Words all{"--model", "m"};
  all.insert(all.end(), words.begin(), words.end());
  expect_error([&] { parse_plan(all); }, reason);
}

TEST(PlanFlags, HaveTheNamesOfTraining) {
  for (const app::FlagSpec& flag : app::plan_table().flags) {
    bool is_of_training = false;
    for (const Objective objective : app::kObjectives) {
      const app::FlagSpec* same = app::find_flag(objective, flag.name);
      is_of_training = is_of_training || (same != nullptr && same->name == flag.name);
    }
    EXPECT_TRUE(is_of_training) << flag.name;
  }
}

TEST(PlanFlags, HaveShortNames) {
  const PlanFlags brief = parse_plan({"--model",
                                      "m",
                                      "--batch",
                                      "4",
                                      "--seq",
                                      "512",
                                      "--accumulation",
                                      "2",
                                      "--budget",
                                      "6GiB",
                                      "--lora",
                                      "--world",
                                      "8"});
  const PlanFlags full = parse_plan({"--model",
                                     "m",
                                     "--per_device_train_batch_size",
                                     "4",
                                     "--max_length",
                                     "512",
                                     "--gradient_accumulation_steps",
                                     "2",
                                     "--activation_memory_budget",
                                     "6GiB",
                                     "--use_peft",
                                     "--nproc",
                                     "8"});
  for (const PlanFlags& flags : {brief, full}) {
    EXPECT_EQ(flags.training.per_device_train_batch_size, 4);
    EXPECT_EQ(flags.row_length, 512);
    EXPECT_EQ(flags.training.gradient_accumulation_steps, 2);
    EXPECT_EQ(flags.training.activation_memory_budget, "6GiB");
    EXPECT_TRUE(flags.training.use_peft);
    EXPECT_EQ(flags.world, 8);
  }
  EXPECT_EQ(brief.sources.at("activation_memory_budget"), "--budget");
  EXPECT_EQ(full.sources.at("activation_memory_budget"), "--activation_memory_budget");
}

TEST(PlanFlags, HaveDefaults) {
  const PlanFlags flags = parse_plan({"--model", "m"});
  EXPECT_EQ(flags.training.objective, Objective::Sft);
  EXPECT_EQ(flags.training.per_device_train_batch_size, 1);
  EXPECT_EQ(flags.row_length, 1024);
  EXPECT_FALSE(flags.training.use_peft);
  EXPECT_TRUE(flags.sources.size() == 1 && flags.has("model"));
}

TEST(PlanFlags, TakeTrainingsAliasesAndLoraSettings) {
  const PlanFlags flags =
      parse_plan({"--model_name_or_path", "m", "--micro_train_batch_size", "3", "--lora_r", "8"});
  EXPECT_EQ(flags.training.model, "m");
  EXPECT_EQ(flags.training.per_device_train_batch_size, 3);
  EXPECT_TRUE(flags.training.use_peft);
  EXPECT_EQ(flags.training.lora_r, 8);
}

TEST(PlanFlags, KnowEveryDevice) {
  for (const DeviceProfile& device : known_devices()) {
    EXPECT_EQ(parse_plan({"--model", "m", "--device", device.name}).training.device, device.name);
  }
  expect_plan_refused({"--device", "abacus"}, "h200, h100");
}

TEST(PlanFlags, ShowBothNamesInHelp) {
  const auto help = run_program({"plan", "--help", "all"});
  for (const app::FlagSpec& flag : app::plan_table().flags) {
    EXPECT_TRUE(contains(help.out, "--" + flag.name + " ")) << flag.name;
    EXPECT_TRUE(flag.short_name.empty() || contains(help.out, "(or --" + flag.short_name + ")"))
        << flag.short_name;
  }
}

TEST(PlanConfig, GivesWhatAPlanUnderstands) {
  const PlanFlags flags = parse_plan_of(R"(
model: m
data: d.jsonl
output_dir: out
learning_rate: 1e-4
per_device_train_batch_size: 2
max_length: 2048
lora_r: 8
lora_target_modules: [q_proj]
optim: sgd
momentum: 0.9
bf16: true
memory_budget: 40GiB
)");
  EXPECT_EQ(flags.training.model, "m");
  EXPECT_EQ(flags.training.per_device_train_batch_size, 2);
  EXPECT_EQ(flags.row_length, 2048);
  EXPECT_TRUE(flags.training.use_peft);
  EXPECT_EQ(flags.training.lora_r, 8);
  EXPECT_EQ(flags.training.lora_target_modules, Words{"q_proj"});
  EXPECT_EQ(flags.training.optim, "sgd");
  EXPECT_EQ(flags.training.momentum, 0.9);
  EXPECT_TRUE(flags.training.bf16);
  EXPECT_EQ(flags.training.memory_budget, "40GiB");
  EXPECT_TRUE(flags.sources.at("memory_budget").ends_with("run.yaml:13: memory_budget"));
  // What a file leaves out is training's default.
  EXPECT_EQ(parse_plan_of("model: m\n").training.per_device_train_batch_size, 8);
}

TEST(PlanConfig, IsOverriddenByFlags) {
  const std::string yaml =
      "model: m\nper_device_train_batch_size: 2\nmax_length: 2048\nlora_r: 8\n";
  const PlanFlags flags = parse_plan_of(yaml, {"--batch", "4", "--max_length", "512"});
  EXPECT_EQ(flags.training.per_device_train_batch_size, 4);
  EXPECT_EQ(flags.row_length, 512);
  EXPECT_EQ(flags.training.lora_r, 8);
  EXPECT_EQ(flags.typed, (std::set<std::string>{"max_length", "per_device_train_batch_size"}));
}

TEST(PlanConfig, IsWhatTheTrainingCommandSaved) {
  for (const Objective objective : app::kObjectives) {
    Words words{"--gradient_accumulation_steps", "8"};
    if (app::is_online(objective)) {
      words.insert(words.end(), {"--max_prompt_length", "100", "--max_completion_length", "28"});
    } else {
      words.insert(words.end(), {"--max_length", "128"});
    }
    const std::string yaml = app::to_yaml(app::resolved_configuration(parse(objective, words)));
    const PlanFlags flags = parse_plan_of(yaml);
    EXPECT_EQ(flags.training.objective, objective);
    EXPECT_EQ(flags.training.model, "m");
    EXPECT_EQ(flags.training.gradient_accumulation_steps, 8);
    EXPECT_EQ(flags.row_length, 128);
    EXPECT_TRUE(flags.not_planned.empty());
  }
}

TEST(PlanConfig, SaysWhichSettingsAPlanDoesNotCover) {
  const PlanFlags flags = parse_plan_of("model: m\nfreeze: [embed]\nema_decay: 0\nseed: 3\n");
  EXPECT_EQ(flags.not_planned, Words{"freeze"});
}

TEST(PlanConfig, IsOfTheObjectiveThatHasItsKeys) {
  EXPECT_EQ(parse_plan_of("model: m\nkl_pairing: next\n").training.objective, Objective::Kto);
  EXPECT_EQ(parse_plan_of("model: m\nseed: 1\n").training.objective, Objective::Sft);
  EXPECT_EQ(parse_plan_of("model: m\nseed: 1\n", {"--objective", "dpo"}).training.objective,
            Objective::Dpo);
  expect_error([] { parse_plan_of("model: m\nbeta: 0.2\n"); }, "give --objective");
  EXPECT_EQ(parse_plan_of("model: m\nbeta: 0.2\n", {"--objective", "kto"}).training.objective,
            Objective::Kto);
}

TEST(PlanConfig, WithUnknownKeysIsRefused) {
  expect_error([] { parse_plan_of("model: m\nmax_lenght: 3\n"); },
               "run.yaml:2: max_lenght: no training command has such a flag; did you mean "
               "--max_length?");
  expect_error(
      [] {
        parse_plan_of("model: m\npacking: true\n", {"--objective", "dpo"});
      },
      "run.yaml:2: packing means nothing for dpo: it is a flag of sft, kd");
  expect_error([] { parse_plan_of("model: m\nkl_pairing: next\nkd_coef: 1\n"); },
               "no training command has all flags");
  expect_error([] { parse_plan_of("model: m\nbatch: 1\nper_device_train_batch_size: 1\n"); },
               "--per_device_train_batch_size is given twice");
  expect_error([] { parse_plan_of("model: m\nmax_length: 0\n"); }, "of at least 1");
  expect_error(
      [] {
        parse_plan({"--model", "m", "--config", "/nowhere/run.yaml"});
      },
      "cannot be read");
}

TEST(PlanFlags, RefuseWhatHasNoEffect) {
  expect_error([] { parse_plan({}); }, "--model is required");
  expect_plan_refused({"--learning_rate", "1"}, "--learning_rate means nothing for plan");
  expect_plan_refused({"--bach", "1"}, "did you mean --batch?");
  expect_plan_refused({"--batch", "0"}, "--batch: expected a whole number from 1 to 1000000");
  expect_plan_refused({"--attn_implementation", "eager"}, "here --attention math");
  expect_plan_refused({"--bf16", "--dtype", "bfloat16"}, "leave out --dtype bfloat16");
  expect_plan_refused({"--use_peft", "false", "--lora_r", "8"}, "with --use_peft false");
  expect_plan_refused({"--adapter", training_fixture("models/adapter"), "--lora_r", "8"},
                      "is trained further, and has 4");
  expect_plan_refused({"--parallel", "fsdp"}, "without --world");
  expect_plan_refused({"--optim", "adam"}, "expected one of adamw, ");
  expect_plan_refused({"--objective", "prm"}, "prm");
  expect_plan_refused({"--max_completion_length", "9"}, "are for grpo and ppo");
  expect_plan_refused({"--objective", "grpo", "--max_completion_length", "9"},
                      "give --max_prompt_length");
  expect_plan_refused({"--objective", "grpo", "--max_prompt_length", "9", "--max_length", "9"},
                      "give --max_length, or");
}

TEST_F(Training, IsPlannedFromTheConfigurationOfItsRun) {
  const auto run = sft(training_fixture("data/sft_completion.jsonl"), {"--max_length", "64"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Words words{"plan", "--config", path("out/training.yaml"), "--device", "h200", "--json"};
  const auto planned = run_program(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const Json plan = parse_json(planned.out, "output");
  EXPECT_EQ(plan["chosen"]["rows"], 4);
  const auto command = plan["command"].get<std::string>();
  EXPECT_TRUE(command.starts_with("reprise sft --config " + path("out/training.yaml"))) << command;
  const auto same = run_program({"plan",
                                 "--model",
                                 training_fixture("models/policy"),
                                 "--batch",
                                 "4",
                                 "--seq",
                                 "64",
                                 "--device",
                                 "h200",
                                 "--json"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  Json expected = parse_json(same.out, "output"), found = plan;
  expected.erase("command");
  found.erase("command");
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace reprise::testing
