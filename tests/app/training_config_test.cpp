// Config files: values, what overrides them, what they are refused for, and the way back.
#include "app/training_flags.h"
#include "reprise/training/effects/same_run.h"
#include "reprise/training/options/checkpointing_request.h"

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using app::TrainingFlags;

TrainingFlags parse_config(const std::string& text,
                           const Words& words = {},
                           Objective objective = Objective::Sft) {
  const ConfigFile file(text);
  Words all = words;
  all.insert(all.end(), {"--config", file.path()});
  return parse_exactly(objective, std::move(all));
}

constexpr const char* kRequired = "model: m\ndata: d.jsonl\noutput_dir: out\n";

/// What is refused, and as which line of the file.
void expect_refused(const std::string& text, int line, const std::string& reason) {
  const std::string message = error_of([&] { parse_config(text); });
  EXPECT_NE(message.find("run.yaml:" + std::to_string(line) + ": "), std::string::npos) << message;
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

TEST(TrainingConfig, GivesValuesOfAllKinds) {
  const TrainingFlags flags = parse_config(R"(
# comment
model_name_or_path: m
data: [a.jsonl, "b.jsonl"]
output_dir: 2024
learning_rate: 1e-4
max_steps: 7
seed: "9"
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: false, every_n_layers: 2}
lora_target_modules:
  - q_proj
  - v_proj
chat_template: ~
shuffle: no
)");
  EXPECT_EQ(flags.model, "m");
  EXPECT_EQ(flags.data, "a.jsonl,b.jsonl");
  EXPECT_EQ(flags.output_dir, "2024");
  EXPECT_EQ(flags.learning_rate, 1e-4);
  EXPECT_EQ(flags.max_steps, 7);
  EXPECT_EQ(flags.seed, 9u);
  EXPECT_EQ(flags.lora_target_modules, (Words{"q_proj", "v_proj"}));
  EXPECT_TRUE(flags.use_peft);
  EXPECT_FALSE(flags.shuffle);
  EXPECT_EQ(flags.chat_template, "");
  EXPECT_EQ(app::checkpointing_request(flags).blocks, "every:2");
  EXPECT_FALSE(flags.given.contains("chat_template"));
  EXPECT_TRUE(flags.given.contains("shuffle"));
}

TEST(TrainingConfig, IsOverriddenByFlags) {
  const TrainingFlags flags =
      parse_config(std::string(kRequired) + "max_steps: 7\nseed: 9\npacking: true\n",
                   {"--max_steps", "3", "--no_packing", "model=other"});
  EXPECT_EQ(flags.max_steps, 3);
  EXPECT_EQ(flags.seed, 9u);
  EXPECT_FALSE(flags.packing);
  EXPECT_EQ(flags.model, "other");
}

TEST(TrainingConfig, AFlagCanTakeBackWhatTheFileSays) {
  const std::string text =
      std::string(kRequired) + "gradient_checkpointing: true\ngradient_checkpointing_ratio: 0.5\n";
  EXPECT_EQ(app::checkpointing_request(parse_config(text)).blocks, "ratio:0.5");
  const Words off{"--gradient_checkpointing", "false"};
  expect_error([&] { parse_config(text, off); }, "--gradient_checkpointing_ratio has no effect");
  Words both = off;
  both.insert(both.end(), {"--gradient_checkpointing_ratio", "0"});
  EXPECT_FALSE(app::checkpointing_request(parse_config(text, both)).enabled);
}

TEST(TrainingConfig, IsRefusedWithFileAndLine) {
  expect_refused("model: m\nlearning_rat: 1\n", 2, "did you mean --learning_rate?");
  expect_refused("model: m\nbeta: 1\n", 2, "beta means nothing for sft: it is a flag of dpo");
  expect_refused("model: m\nfrobnicate: 1\n", 2, "sft has no such flag");
  expect_refused("model: m\n\nmax_steps: many\n", 3, "max_steps: expected a whole number");
  expect_refused("max_steps: [1, 2]\n", 1, "expected one value, found a list");
  expect_refused("max_steps: {a: 1}\n", 1, "expected one value, found a map");
  expect_refused("model: m\nlora_target_modules: {a: 1}\n", 2, "found a map");
  expect_refused("packing: 3\n", 1, "packing: expected true or false");
  expect_refused("model: m\nmodel: n\n", 2, "--model is given twice");
  expect_refused("model: m\nmodel_name_or_path: n\n", 2, "--model is given twice");
  expect_refused("model: m\n- data\n", 2, "not YAML");
  expect_refused("model: [a, b}\n", 1, "not YAML");
  expect_refused("model: m\ndata: \"\\q\"\n", 2, "not YAML");
  expect_refused("model: m\ndata: \"\xff\"\n", 2, "UTF-8");
  expect_refused("- model\n", 1, "found a list");
  expect_refused("model\n", 1, "found text");
  expect_refused("[a]: 1\n", 1, "expected a name");
  expect_refused("~: 1\n", 1, "expected a name");
  expect_refused("freeze: [a, ~]\n", 1, "found null");
}

TEST(TrainingConfig, NumbersThatDoNotFitAreRefusedNotTakenAsZero) {
  for (const char* number : {"1e999", "-1e999", "1e-999", "nan", "inf"}) {
    SCOPED_TRACE(number);
    expect_refused(std::string("gradient_checkpointing_kwargs: {every_n_layers: ") + number + "}",
                   1,
                   std::string("expected a finite number or quoted text, found ") + number);
  }
  const auto refused = error_of([] {
    parse_config(std::string(kRequired) +
                 "gradient_checkpointing: true\n"
                 "gradient_checkpointing_kwargs: {every_n_layers: 99999999999999999999}\n");
  });
  EXPECT_NE(refused.find("1e+20"), std::string::npos) << refused;
}

TEST(TrainingConfig, AChoiceIsNotMadeByAnEmptyList) {
  for (const Objective objective : {Objective::Rm, Objective::Dpo, Objective::Grpo}) {
    expect_error([&] { parse_config("model: m\nloss_type: []\n", {}, objective); },
                 "run.yaml:2: loss_type: expected one of");
  }
}

TEST(TrainingConfig, LoraThatIsSwitchedOffIsNotSwitchedOnByItsSettings) {
  expect_error([] { parse_config(std::string(kRequired) + "use_peft: false\nlora_r: 8\n"); },
               "--lora_r has no effect with --use_peft false");
}

TEST(TrainingConfig, SaysWhatIsMissing) {
  expect_error([] { parse_config(""); }, "--model is required");
  expect_error([] { parse_config("# nothing\n---\n"); }, "--model is required");
  expect_error([] { parse(Objective::Sft, {"--config", "/nowhere/run.yaml"}); }, "cannot be read");
  expect_error([] { parse(Objective::Sft, {"--config", "/"}); }, "cannot be read");
  expect_error([] { parse_config("model: m\n---\nmodel: n\n"); }, "expected one YAML document");
}

TEST(TrainingConfig, HostileFilesAreRefusedNotFollowed) {
  expect_refused("a: &a [x]\n", 1, "anchors and aliases");
  expect_refused("model: m\nfreeze: *a\n", 2, "");
  std::string bomb = "a: &a [x, x]\n";
  for (char name = 'b'; name <= 'z'; ++name) {
    const std::string before(1, static_cast<char>(name - 1));
    bomb += std::string(1, name) + ": &" + name + " [*" + before + ", *" + before + "]\n";
  }
  expect_refused(bomb, 1, "anchors and aliases");
  const size_t depth = 100'000;
  expect_refused("freeze: " + std::string(depth, '[') + std::string(depth, ']'), 1, "too deeply");
  expect_refused("freeze: " + std::string(depth, '['), 1, "");
  expect_refused(std::string(100'000, '{'), 1, "");
  expect_refused("gradient_checkpointing_kwargs: {layers: [[1]]}", 1, "nested too deeply");
  expect_refused("freeze: [[a]]\n", 1, "nested too deeply");
  expect_error([] { parse_config("model: " + std::string(size_t{2} << 20, 'x')); },
               "at most 1 MiB");
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  }
  expect_refused(deep, 4, "nested too deeply");
}

TEST(TrainingConfig, EveryTruncationAndChangedByteIsTakenOrRefused) {
  const std::string text = std::string(kRequired) +
                           "freeze: [\"q\", 'v']\ngradient_checkpointing: on\n"
                           "gradient_checkpointing_kwargs: {\"layers\": [0, 1]}\n";
  for (size_t length = 0; length < text.size(); ++length) {
    error_of([&] { parse_config(text.substr(0, length)); });
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char replaced : {'"', '{', '\n', '\xff'}) {
      std::string changed = text;
      changed[at] = replaced;
      error_of([&] { parse_config(changed); });
    }
  }
}

TEST(TrainingConfig, TheResolvedConfigurationHasEveryFlagInOrder) {
  const Json configuration =
      app::resolved_configuration(parse(Objective::Dpo, {"--lora_r", "8", "--beta", "0.2"}));
  EXPECT_EQ(configuration.begin().key(), "model");
  EXPECT_EQ(configuration["beta"], 0.2);
  EXPECT_EQ(configuration["use_peft"], true);
  EXPECT_EQ(configuration["lora_alpha"], 32.0);
  EXPECT_EQ(configuration["ref_model"], nullptr);
  EXPECT_EQ(configuration["chosen_key"], "chosen");
  EXPECT_EQ(configuration["loss_type"], Json::array({"sigmoid"}));
  EXPECT_FALSE(configuration.contains("model_name_or_path"));
  EXPECT_FALSE(configuration.contains("kd_coef"));
}

TEST(TrainingConfig, AWrittenConfigurationReadsBackAsItself) {
  const std::pair<Objective, Words> runs[] = {
      {Objective::Sft,
       {"--packing",
        "--lora_r",
        "8",
        "--eval_data",
        "e: #1.jsonl",
        "--metric_for_best_model",
        "loss",
        "--input_template",
        "User: {}\n\"A\": \\ é \x7f\t",
        "--freeze",
        "true",
        "~",
        "--learning_rate",
        "0.1234567890123",
        "--seed",
        "18446744073709551615",
        "--no_completion_only_loss",
        "--gradient_checkpointing",
        "--gradient_checkpointing_kwargs",
        R"({"layers": "0-3", "use_reentrant": false, "early_stop": false})"}},
      {Objective::Rm, {"--loss_type", "logexp", "--no_shuffle"}},
      {Objective::Prm, {"--step_separator", ""}},
      {Objective::Dpo, {"--loss_type", "sigmoid,sft", "--loss_weights", "1,0.25"}},
      {Objective::Kto, {"--desirable_weight", "1.5", "--use_peft"}},
      {Objective::Kd, {"--divergence", "jsd", "--jsd_beta", "0.1"}}};
  for (const auto& [objective, words] : runs) {
    SCOPED_TRACE(to_string(objective));
    const TrainingFlags flags = parse(objective, words);
    const std::string yaml = app::to_yaml(app::resolved_configuration(flags));
    const TrainingFlags again = parse_config(yaml, {}, objective);
    EXPECT_EQ(app::resolved_configuration(again), app::resolved_configuration(flags));
    EXPECT_EQ(app::to_yaml(app::resolved_configuration(again)), yaml);
    EXPECT_EQ(app::checkpointing_request(again).blocks, app::checkpointing_request(flags).blocks);
  }
}

/// A checkpoint of a run with these words in so many processes.
class Checkpoint {
 public:
  Checkpoint(Objective objective, const Words& words, int64_t world_size) : objective_(objective) {
    Json configuration = resolved_configuration(parse(objective, words));
    configuration["world_size"] = world_size;
    std::ofstream(folder_.path() / "trainer_state.json")
        << Json{{"configuration", configuration}}.dump();
  }
  /// What is said to going on with other words in so many processes.
  std::string refusal(const Words& words, int64_t world_size) const {
    const auto flags = parse(objective_, words);
    return error_of([&] {
      app::check_same_run(folder_.path(), flags, resolved_configuration(flags), world_size);
    });
  }

 private:
  Objective objective_;
  TemporaryFolder folder_;
};

Words cut(const char* rows, const char* accumulation) {
  return {"--per_device_train_batch_size", rows, "--gradient_accumulation_steps", accumulation};
}

TEST(SameRun, MayGoOnInAnyNumberOfProcessesWithAsManyRowsAStep) {
  const Checkpoint checkpoint(Objective::Sft, cut("4", "4"), 2);
  EXPECT_EQ(checkpoint.refusal(cut("4", "4"), 2), "");
  EXPECT_EQ(checkpoint.refusal(cut("4", "8"), 1), "");
  EXPECT_EQ(checkpoint.refusal(cut("8", "1"), 4), "");
  Words with_fsdp = cut("4", "2");
  with_fsdp.insert(with_fsdp.end(), {"--parallel", "fsdp", "--comm_timeout", "60"});
  EXPECT_EQ(checkpoint.refusal(with_fsdp, 4), "");
}

TEST(SameRun, IsAnotherRunIfAStepHasOtherRows) {
  const Checkpoint checkpoint(Objective::Sft, cut("4", "4"), 2);
  const auto message = checkpoint.refusal(cut("4", "4"), 4);
  EXPECT_NE(message.find("resuming in 4 processes instead of 2: --per_device_train_batch_size x "
                         "--gradient_accumulation_steps x processes must stay 32, and would be 64"),
            std::string::npos)
      << message;
  // In the same world they stay as they are: nothing asks for a change.
  EXPECT_NE(checkpoint.refusal(cut("8", "2"), 2).find("--per_device_train_batch_size: was 4"),
            std::string::npos);
}

TEST(SameRun, KeepsTheMicroBatchesOverWhichALossIsAMean) {
  const Checkpoint kto(Objective::Kto, cut("4", "4"), 2);
  EXPECT_EQ(kto.refusal(cut("2", "4"), 4), "");
  EXPECT_NE(kto.refusal(cut("4", "2"), 4).find("--per_device_train_batch_size x processes must"),
            std::string::npos);
  EXPECT_NE(kto.refusal(cut("8", "8"), 1).find("--gradient_accumulation_steps must stay 4"),
            std::string::npos);
  const Checkpoint dpo(Objective::Dpo, cut("4", "4"), 2);
  EXPECT_EQ(dpo.refusal(cut("4", "2"), 4), "");
  EXPECT_NE(dpo.refusal(cut("8", "1"), 4).find("--per_device_train_batch_size must stay 4"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
