// Flags of the training commands: defaults, names, spellings, suggestions, help.
#include "app/training_flags.h"
#include "support/fixtures.h"

#include "reprise/training/flags/flag_table.h"
#include "reprise/training/options/kernel_choice.h"
#include "reprise/training/options/lora_config.h"
#include "reprise/training/options/schedule_options.h"

#include <reprise/loss/preference.h>
#include <reprise/loss/reward.h>
#include <reprise/loss/unpaired.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/model/pretrained.h>
#include <reprise/optim/schedule.h>

#include <gtest/gtest.h>

#include <set>

namespace reprise::testing {
namespace {

using app::TrainingFlags;

TEST(TrainingFlags, DefaultsAreThoseOfTheObjective) {
  struct Row {
    Objective objective;
    double learning_rate;
    bool disable_dropout;
    bool shuffle;
    Words loss_type;
  };
  const Row rows[] = {{Objective::Sft, 2e-5, false, true, {"nll"}},
                      {Objective::Rm, 1e-4, true, true, {"sigmoid"}},
                      {Objective::Prm, 1e-5, false, true, {}},
                      {Objective::Dpo, 1e-6, true, true, {"sigmoid"}},
                      {Objective::Kto, 1e-6, true, false, {"kto"}},
                      {Objective::Kd, 5e-6, false, true, {}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(to_string(row.objective));
    const TrainingFlags flags = parse(row.objective);
    EXPECT_EQ(flags.learning_rate, row.learning_rate);
    EXPECT_EQ(flags.disable_dropout, row.disable_dropout);
    EXPECT_EQ(flags.shuffle, row.shuffle);
    EXPECT_EQ(flags.loss_type, row.loss_type);
    EXPECT_EQ(flags.per_device_train_batch_size, 8);
    EXPECT_EQ(flags.num_train_epochs, 3);
    EXPECT_EQ(flags.max_length, 1024);
    EXPECT_EQ(flags.seed, 42u);
    EXPECT_EQ(flags.logging_steps, 10);
    EXPECT_EQ(flags.save_steps, 500);
    EXPECT_EQ(flags.lr_scheduler_type, "linear");
    EXPECT_FALSE(flags.gradient_checkpointing);
    EXPECT_FALSE(flags.use_peft);
  }
}

TEST(TrainingFlags, AWarmupRatioIsAlwaysAShareOfAllSteps) {
  const auto warmup = [](const Words& words) {
    return warmup_count(app::warmup_of(parse(Objective::Sft, words)), 300);
  };
  EXPECT_EQ(warmup({}), 0);
  EXPECT_EQ(warmup({"--warmup_ratio", "0.1"}), 30);
  EXPECT_EQ(warmup({"--warmup_ratio", "1"}), 300);
  EXPECT_EQ(warmup({"--warmup_steps", "0.1"}), 30);
  EXPECT_EQ(warmup({"--warmup_steps", "1"}), 1);
  for (const int64_t total : {1, 2, 3, 4, 7, 1024, 1'000'003}) {
    EXPECT_EQ(warmup_count(app::warmup_of(parse(Objective::Sft, {"--warmup_ratio", "1"})), total),
              total);
  }
}

TEST(TrainingFlags, TheLeastLearningRateIsTheOneOfTheSchedule) {
  const auto least = [](const Words& words) {
    return app::schedule_options(parse(Objective::Sft, words)).min_ratio;
  };
  const Words late{"--lr_scheduler_type", "wsd", "--lr_decay_steps", "9"};
  EXPECT_EQ(least(late), 0);  // transformers' get_wsd_schedule
  EXPECT_EQ(least({"--lr_scheduler_type", "cosine_with_min_lr"}), 0.1);
  EXPECT_EQ(least({"--lr_scheduler_type", "cosine_with_min_lr", "--min_lr_ratio", "0"}), 0);
  Words given = late;
  given.insert(given.end(), {"--min_lr_ratio", "0.2"});
  EXPECT_EQ(least(given), 0.2);
}

TEST(TrainingFlags, AttentionCannotBeChosenWhereNoKernelCapsScores) {
  const auto model = load_model(fixtures() / "models" / "gemma2").model;
  EXPECT_EQ(app::attention_of(parse(Objective::Sft), *model), "sliced");
  EXPECT_EQ(app::attention_of(parse(Objective::Sft, {"--deterministic"}), *model),
            "sliced (deterministic)");
  expect_error(
      [&] {
        app::attention_of(parse(Objective::Sft, {"--attention", "math"}), *model);
      },
      "its scores have a soft cap");
}

TEST(TrainingFlags, AttentionIsCudnnsWhereItsPlansAreUsedAgain) {
  const auto kernel = [](const Words& words, int generation) {
    return app::kernel_choice(parse(Objective::Sft, words), generation).attention;
  };
  const Words wrapped{"--packing", "--packing_strategy", "wrapped"};
  EXPECT_EQ(kernel(wrapped, 9), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel(wrapped, 10), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel(wrapped, 8), AttentionKernel::Flash);
  EXPECT_EQ(kernel(wrapped, 0), AttentionKernel::Flash);
  EXPECT_EQ(kernel({}, 9), AttentionKernel::Flash);
  EXPECT_EQ(kernel({"--packing"}, 9), AttentionKernel::Flash);
  EXPECT_EQ(kernel({"--attention", "cudnn"}, 8), AttentionKernel::Cudnn);
  EXPECT_EQ(kernel({"--attention", "math"}, 9), AttentionKernel::Math);
  Words repeated = wrapped;
  repeated.emplace_back("--deterministic");
  EXPECT_EQ(kernel(repeated, 9), AttentionKernel::Flash);
  EXPECT_TRUE(app::kernel_choice(parse(Objective::Sft, repeated), 9).is_deterministic);
}

TEST(TrainingFlags, GivenAreOnlyThoseThatWereTyped) {
  const TrainingFlags flags = parse(Objective::Sft, {"--max_steps", "5", "--packing"});
  EXPECT_EQ(flags.given,
            (std::set<std::string>{"model", "data", "output_dir", "max_steps", "packing"}));
}

TEST(TrainingFlags, EveryNameOfAFlagSetsIt) {
  for (const Objective objective : app::kObjectives) {
    for (const auto& flag : app::flags_of(objective)) {
      for (const std::string& name : flag.other_names) {
        SCOPED_TRACE(to_string(objective) + " --" + name);
        EXPECT_EQ(app::find_flag(objective, name)->name, flag.name) << "two flags have this name";
      }
    }
  }
  EXPECT_TRUE(parse(Objective::Dpo, {"--activation_checkpointing"}).gradient_checkpointing);
  EXPECT_TRUE(parse(Objective::Dpo, {"activation_checkpointing=true"}).gradient_checkpointing);
  EXPECT_TRUE(parse(Objective::Rm, {"--grad_checkpoint"}).gradient_checkpointing);
  EXPECT_TRUE(parse(Objective::Sft, {"--use_grad_checkpoint"}).gradient_checkpointing);
  const TrainingFlags openrlhf =
      parse(Objective::Sft,
            {"--model.gradient_checkpointing_enable", "--model.gradient_checkpointing_reentrant"});
  EXPECT_TRUE(openrlhf.gradient_checkpointing);
  EXPECT_TRUE(openrlhf.gradient_checkpointing_use_reentrant);
  const TrainingFlags trl = parse_exactly(
      Objective::Sft,
      {"--model_name_or_path", "m", "--dataset_name", "d.jsonl", "--output_dir", "out"});
  EXPECT_EQ(trl.model, "m");
  EXPECT_EQ(trl.data, "d.jsonl");
  EXPECT_TRUE(trl.given.contains("model"));
}

TEST(TrainingFlags, SwitchesAreTakenInAllSpellings) {
  EXPECT_TRUE(parse(Objective::Sft, {"--packing"}).packing);
  EXPECT_TRUE(parse(Objective::Sft, {"--packing", "true"}).packing);
  EXPECT_TRUE(parse(Objective::Sft, {"--packing=True"}).packing);
  EXPECT_TRUE(parse(Objective::Sft, {"packing=1"}).packing);
  EXPECT_TRUE(parse(Objective::Sft, {"--packing", "--max_steps", "1"}).packing);
  EXPECT_FALSE(parse(Objective::Sft, {"--shuffle", "false"}).shuffle);
  EXPECT_FALSE(parse(Objective::Sft, {"--shuffle=False"}).shuffle);
  EXPECT_FALSE(parse(Objective::Sft, {"--no_shuffle"}).shuffle);
  EXPECT_FALSE(parse(Objective::Sft, {"shuffle=off"}).shuffle);
  EXPECT_EQ(parse(Objective::Sft).completion_only_loss, std::nullopt);
  EXPECT_EQ(parse(Objective::Sft, {"--completion_only_loss"}).completion_only_loss, true);
  EXPECT_EQ(parse(Objective::Sft, {"--no_completion_only_loss"}).completion_only_loss, false);
  expect_error(
      [] {
        parse(Objective::Sft, {"--packing", "maybe"});
      },
      "--packing: expected true or false, found \"maybe\"");
}

TEST(TrainingFlags, WordsWithEqualsSignsAreFlags) {
  const TrainingFlags flags = parse_exactly(Objective::Dpo,
                                            {"model.name_or_path=m",
                                             "--lora_target_modules",
                                             "q_proj",
                                             "v_proj",
                                             "data=a.jsonl",
                                             "loss.beta=0.3",
                                             "--bf16",
                                             "output_dir=out"});
  EXPECT_EQ(flags.model, "m");
  EXPECT_EQ(flags.lora_target_modules, (Words{"q_proj", "v_proj"}));
  EXPECT_EQ(flags.data, "a.jsonl");
  EXPECT_EQ(flags.beta, 0.3);
  EXPECT_TRUE(flags.bf16);
  EXPECT_EQ(flags.output_dir, "out");
}

TEST(TrainingFlags, ListsAreTakenAsWordsAndWithCommas) {
  const Words names{"q_proj", "v_proj"};
  const auto modules = [](const Words& words) {
    return parse(Objective::Sft, words).lora_target_modules;
  };
  EXPECT_EQ(modules({"--lora_target_modules", "q_proj", "v_proj"}), names);
  EXPECT_EQ(modules({"--lora_target_modules", "q_proj,v_proj"}), names);
  EXPECT_EQ(modules({"--lora_target_modules", "q_proj", "--lora_target_modules", "v_proj"}), names);
  EXPECT_EQ(parse(Objective::Dpo, {"--loss_type", "sigmoid", "sft", "--loss_weights", "1,0.5"})
                .loss_weights,
            (std::vector<double>{1, 0.5}));
  // Tokens and patterns are taken as they stand.
  const Words tokens{"[GOOD]", "a,b"};
  EXPECT_EQ(parse(Objective::Prm,
                  {"--prm_convention",
                   "placeholders",
                   "--placeholder_token",
                   "[P]",
                   "--reward_tokens",
                   "[GOOD]",
                   "a,b"})
                .reward_tokens,
            tokens);
  const Words two_files{"--model", "m", "--output_dir", "o", "--data", "a.jsonl:1", "b.jsonl:2"};
  EXPECT_EQ(parse_exactly(Objective::Sft, two_files).data, "a.jsonl:1,b.jsonl:2");
}

TEST(TrainingFlags, AnyFlagOfLoraSwitchesItOn) {
  EXPECT_TRUE(parse(Objective::Sft, {"--lora_r", "8"}).use_peft);
  EXPECT_TRUE(parse(Objective::Sft, {"--use_rslora"}).use_peft);
  EXPECT_TRUE(parse(Objective::Sft, {"--use_dora"}).use_peft);
  EXPECT_TRUE(parse(Objective::Sft, {"--init_lora_weights", "pissa"}).use_peft);
  EXPECT_FALSE(parse(Objective::Sft, {"--use_peft", "false"}).use_peft);
  expect_error(
      [] {
        parse(Objective::Sft, {"--use_peft", "false", "--lora_r", "8"});
      },
      "--lora_r has no effect with --use_peft false");
}

TEST(TrainingFlags, OfLoraMakeItsConfig) {
  const auto flags = parse_exactly(Objective::Sft,
                                   {"--model",
                                    "m",
                                    "--output_dir",
                                    "o",
                                    "--data",
                                    "d",
                                    "--lora_target_modules",
                                    "q_proj,v_proj",
                                    "--lora_rank_pattern",
                                    "q_proj=4",
                                    "layers\\.[01]\\.(k=|v_proj)=32",
                                    "--lora_alpha_pattern",
                                    "v_proj=0.5",
                                    "--exclude_modules",
                                    "layers.1.self_attn.q_proj",
                                    "--layers_to_transform",
                                    "0",
                                    "2",
                                    "--init_lora_weights",
                                    "pissa_niter_4"});
  const auto config = app::lora_config(flags, "base");
  EXPECT_EQ(config.rank_pattern,
            (LoraConfig::Patterns<int64_t>{{"q_proj", 4}, {"layers\\.[01]\\.(k=|v_proj)", 32}}));
  EXPECT_EQ(config.alpha_pattern, (LoraConfig::Patterns<double>{{"v_proj", 0.5}}));
  EXPECT_EQ(config.excluded, LoraConfig::Names(Words{"layers.1.self_attn.q_proj"}));
  EXPECT_EQ(config.layers, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(config.init.name(), "pissa_niter_4");
  EXPECT_FALSE(config.use_dora);
  EXPECT_TRUE(app::lora_config(parse(Objective::Sft, {"--use_dora"}), "").use_dora);
}

TEST(TrainingFlags, NamesOfKeysAreOnlyKeptWhereTheyDiffer) {
  EXPECT_EQ(parse(Objective::Dpo, {"--chosen_key", "better", "--prompt_key", "prompt"}).keys,
            (std::map<std::string, std::string>{{"chosen", "better"}}));
}

TEST(TrainingFlags, MetricsAndResumeAreSpelledAsInTransformers) {
  const TrainingFlags flags = parse(Objective::Sft,
                                    {"--eval_data",
                                     "e.jsonl",
                                     "--metric_for_best_model",
                                     "loss",
                                     "--resume_from_checkpoint",
                                     "true"});
  EXPECT_EQ(flags.metric_for_best_model, "eval_loss");
  EXPECT_EQ(flags.resume_from_checkpoint, "auto");
}

TEST(TrainingFlags, AnUnknownFlagSuggestsTheNearest) {
  expect_error(
      [] {
        parse(Objective::Sft, {"--learning_rat", "1e-4"});
      },
      "--learning_rat: there is no such flag; did you mean --learning_rate?");
  expect_error([] { parse(Objective::Sft, {"--learning-rate=1e-4"}); },
               "--learning-rate: there is no such flag; did you mean --learning_rate?");
  expect_error([] { parse(Objective::Sft, {"max_step=4"}); }, "did you mean --max_steps?");
  expect_error([] { parse(Objective::Sft, {"--frobnicate"}); },
               "--frobnicate: there is no such flag. --help lists them");
  expect_error([] { parse(Objective::Sft, {"--" + std::string(100000, 'x')}); },
               "there is no such flag. --help");
  expect_error(
      [] {
        parse(Objective::Sft, {"--max_steps", "3", "word"});
      },
      "\"word\" belongs to no flag");
}

TEST(TrainingFlags, AFlagOfOtherObjectivesIsNamedAsSuch) {
  expect_error(
      [] {
        parse(Objective::Sft, {"--beta", "0.1"});
      },
      "--beta means nothing for sft: it is a flag of dpo, kto");
  expect_error([] { parse(Objective::Dpo, {"--completion_only_loss"}); },
               "means nothing for dpo: it is a flag of sft, kd");
}

TEST(TrainingFlags, TheLastOfARepeatedFlagWinsAndIsNamed) {
  const auto steps = parse(Objective::Sft, {"--max_steps", "1", "--max_steps", "2"});
  EXPECT_EQ(steps.max_steps, 2);
  EXPECT_EQ(steps.notes, Words{"--max_steps was given 2 times: the last is used, 2"});
  // The order of the command line counts, not that of names, and not how it is written.
  EXPECT_EQ(parse(Objective::Sft, {"--model_name_or_path", "other"}).model, "other");
  EXPECT_EQ(parse(Objective::Sft, {"--lr", "1", "--learning_rate", "2"}).learning_rate, 2);
  EXPECT_EQ(parse(Objective::Sft, {"--learning_rate", "2", "--lr", "1"}).learning_rate, 1);
  EXPECT_EQ(parse(Objective::Sft, {"lr=3", "--learning_rate", "2"}).learning_rate, 2);
  EXPECT_EQ(parse(Objective::Sft, {"--learning_rate", "2", "lr=3"}).learning_rate, 3);
  EXPECT_FALSE(parse(Objective::Sft, {"--shuffle", "--no_shuffle"}).shuffle);
  EXPECT_TRUE(parse(Objective::Sft, {"--no_shuffle", "--shuffle"}).shuffle);
  EXPECT_TRUE(parse(Objective::Sft, {"--bf16", "false", "--bf16"}).bf16);
  // Nothing to say: the same value, or one of a file.
  EXPECT_TRUE(parse(Objective::Sft, {"--bf16", "--bf16", "true"}).notes.empty());
}

TEST(TrainingFlags, ARepeatedListKeepsAllItsValues) {
  const auto flags =
      parse(Objective::Sft,
            {"--lora_target_modules", "q_proj", "--lora_target_modules", "k_proj", "v_proj"});
  EXPECT_EQ(flags.lora_target_modules, (Words{"q_proj", "k_proj", "v_proj"}));
  EXPECT_TRUE(flags.notes.empty());
}

TEST(TrainingFlags, WhatIsRequiredIsAskedFor) {
  expect_error([] { parse_exactly(Objective::Sft, {}); }, "--model is required");
  expect_error([] { parse_exactly(Objective::Sft, {"--model", "m"}); }, "--data is required");
  expect_error(
      [] {
        parse_exactly(Objective::Kd, {"--model", "m", "--data", "d", "--output_dir", "o"});
      },
      "--teacher_model is required");
}

TEST(TrainingFlags, BadValuesSayWhatWasExpected) {
  const std::pair<Words, const char*> cases[] = {
      {{"--max_steps", "many"},
       "--max_steps: expected a whole number of at least -1, found \"many\""},
      {{"--max_steps", "1.5"}, "expected a whole number"},
      {{"--max_steps", "99999999999999999999"}, "expected a whole number"},
      {{"--learning_rate", "0"}, "--learning_rate: expected a number above 0, found \"0\""},
      {{"--learning_rate", "nan"}, "expected a number above 0"},
      {{"--lora_dropout", "1.5"}, "expected a number from 0 to 1"},
      {{"--seed", "-1"}, "expected a whole number"},
      {{"--logging_steps", "0"}, "--logging_steps: expected a whole number of at least 1"},
      {{"--dtype", "float16"},
       "--dtype: expected one of float32, bfloat16; found \"float16\"; did"},
      {{"--lr_scheduler_type", "cosin"}, "did you mean cosine?"},
      {{"--adapter", ""}, "--adapter: expected a value"}};
  for (const auto& [words, message] : cases) {
    expect_error([&words = words] { parse(Objective::Sft, words); }, message);
  }
}

TEST(TrainingFlags, HelpHasEveryFlagOnceWithItsDefaultAndNoAliases) {
  for (const Objective objective : app::kObjectives) {
    SCOPED_TRACE(to_string(objective));
    CLI::App command;
    app::add_training_flags(command, objective);
    const std::string help = command.help();
    for (const auto& flag : app::flags_of(objective)) {
      const std::string shown = "\n  --" + flag.name + " " + flag.unit;
      const size_t at = help.find(shown);
      ASSERT_NE(at, std::string::npos) << flag.name;
      const std::string entry = help.substr(at, help.find("\n  --", at + 1) - at);
      const bool says_default = entry.find("[default: ") != std::string::npos;
      EXPECT_NE(says_default, entry.find("[required]") != std::string::npos) << entry;
      for (const std::string& other : flag.other_names) {
        EXPECT_EQ(help.find("--" + other + " "), std::string::npos) << other;
      }
    }
    for (const char* group : {"Model:",
                              "LoRA",
                              "Data:",
                              "Training:",
                              "Gradient checkpointing:",
                              "Evaluation and saving:"}) {
      EXPECT_NE(help.find(group), std::string::npos) << group;
    }
  }
}

TEST(TrainingFlags, EveryChoiceIsOneThatTheLibraryKnows) {
  const auto choices = [](Objective objective, const char* flag) {
    return app::find_flag(objective, flag)->choices;
  };
  for (const auto& name : choices(Objective::Dpo, "loss_type")) {
    EXPECT_NO_THROW(parse_preference_loss(name));
  }
  for (const auto& name : choices(Objective::Dpo, "f_divergence_type")) {
    EXPECT_NO_THROW(parse_f_divergence(name));
  }
  for (const auto& name : choices(Objective::Kto, "loss_type")) {
    EXPECT_NO_THROW(parse_unpaired_loss(name));
  }
  for (const auto& name : choices(Objective::Rm, "loss_type")) {
    EXPECT_NO_THROW(parse_reward_loss(name));
  }
  for (const auto& name : choices(Objective::Sft, "lr_scheduler_type")) {
    EXPECT_NO_THROW(schedule_named(name));
  }
  for (const auto& name : choices(Objective::Sft, "attention")) {
    if (name != "auto") {
      EXPECT_NO_THROW(parse_attention_kernel(name));
    }
  }
  for (const auto& name : choices(Objective::Sft, "gradient_checkpointing_policy")) {
    EXPECT_NO_THROW(checkpoint_options_named(name));
  }
}

}  // namespace
}  // namespace reprise::testing
