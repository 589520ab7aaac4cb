// Flags of other programs get the answer of docs/migrating.md, on a command line and in a config
// file.
#include "reprise/training/flags/foreign_flags.h"
#include "app/training_flags.h"
#include "reprise/training/flags/flag_table.h"
#include "support/error_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace reprise {
namespace {

using namespace testing;
using app::ForeignFlag;

bool is_ours(const std::string& name) {
  return name == "config" ||
         std::any_of(app::kObjectives.begin(), app::kObjectives.end(), [&](Objective objective) {
           return app::find_flag(objective, name) != nullptr;
         });
}

/// A flag that the row is about.
std::string flag_of(const ForeignFlag& row) {
  std::string name = row.name;
  std::replace(name.begin(), name.end(), '*', 'x');
  return name;
}

std::string config_error(Objective objective, const std::string& text) {
  const ConfigFile file(text);
  return parse_error(objective, {"--config", file.path()});
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ForeignFlags, EveryFlagOfTheDocumentIsOursOrHasAnAnswer) {
  int answered = 0;
  for (const ForeignFlag& row : app::foreign_flags()) {
    const std::string name = flag_of(row);
    if (is_ours(row.name) || row.here.starts_with("same")) {
      EXPECT_TRUE(is_ours(row.name) || row.name.find('*') != std::string::npos)
          << name << " is \"same\" in the document, but no flag";
      continue;
    }
    ++answered;
    EXPECT_EQ(row.here.find("accepted"), std::string::npos) << name << " is not accepted";
    EXPECT_FALSE(row.note.empty() && (row.here.empty() || row.here == "refused"))
        << name << " has no answer";
    const Objective objective = row.is_online ? Objective::Grpo : Objective::Sft;
    const std::string value = row.value.empty() ? "1" : row.value;
    const auto* answer = app::find_foreign_flag(name, value, objective);
    ASSERT_NE(answer, nullptr) << name;  // perhaps another row about the same
    for (const std::string& error : {parse_error(objective, {"--" + name, value}),
                                     config_error(objective, name + ": \"" + value + "\"\n")}) {
      EXPECT_EQ(error.find("no such flag"), std::string::npos) << error;
      // Kinds of parallelism have messages of their own.
      EXPECT_TRUE(error.find(app::answer_of(*answer, value)) != std::string::npos ||
                  error.find("parallel") != std::string::npos)
          << error;
    }
  }
  EXPECT_GT(answered, 100);
}

TEST(ForeignFlags, TheAnswerNamesTheFlagWithTheValueToUse) {
  const std::tuple<Objective, Words, const char*> cases[] = {
      {Objective::Sft, {"--fp16"}, "--fp16 (TRL): here --bf16; bfloat16 has"},
      {Objective::Sft, {"--dataset_text_field", "content"}, "(TRL): here --text_key content"},
      {Objective::Sft,
       {"--attn_implementation", "flash_attention_2"},
       "(TRL) flash_attention_2: here --attention flash;"},
      {Objective::Sft, {"--attn_implementation=eager"}, "eager: here --attention math"},
      {Objective::Sft, {"--save_strategy", "no"}, "here --save_steps 0;"},
      {Objective::Sft, {"--report_to", "none"}, "leave it out: nothing leaves the machine"},
      {Objective::Sft, {"--report_to", "wandb"}, "(TRL) is not available: wandb"},
      {Objective::Dpo, {"--dataloader_num_workers", "4"}, "(TRL): leave it out"},
      {Objective::Dpo, {"loss.name=ipo"}, "(DPO code) ipo: here --loss_type ipo_sum"},
      {Objective::Grpo, {"--vllm_mode", "colocate"}, "generation runs in the same process"},
      {Objective::Grpo, {"--sync_ref_model"}, "the reference of online training is fixed"},
      {Objective::Ppo, {"--max-new-tokens", "9"}, "here --max_completion_length 9"}};
  for (const auto& [objective, words, answer] : cases) {
    expect_contains(parse_error(objective, words), answer);
  }
}

TEST(ForeignFlags, AConfigFileGetsTheSameAnswerWithItsLine) {
  expect_contains(config_error(Objective::Sft, "bf16: true\nfp16: true\n"),
                  "run.yaml:2: fp16 (TRL): here --bf16");
  const std::string two =
      config_error(Objective::Sft, "dataset_text_field: body\nuse_liger_kernel: true\n");
  expect_contains(two, "run.yaml:1: dataset_text_field (TRL): here --text_key body\n");
  expect_contains(two, "run.yaml:2: use_liger_kernel (TRL): leave it out");
}

TEST(ForeignFlags, AllOfACommandAreAnsweredAtOnce) {
  const std::string error = parse_error(
      Objective::Sft, {"--fp16", "--report_to", "none", "--frobnicate", "3", "--max_steps", "3"});
  expect_contains(error, "--fp16 (TRL)");
  expect_contains(error, "\n  --report_to (TRL)");
  expect_contains(error, "\n  --frobnicate: there is no such flag");
}

TEST(ForeignFlags, TablesAreReadAsMarkdownHasThem) {
  const auto rows = app::read_foreign_flags(
      "| | here |\n|---|---|\n| `--x` | y |\n\n| Other | here | |\n|---|---|---|\n"
      "| `--a`, `--b=V` (c) | `--d x\\|y` | see [e](f.md) |\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].name, "b");
  EXPECT_EQ(rows[1].value, "V");
  EXPECT_EQ(app::answer_of(rows[0], ""), " (Other): here --d x|y; see e");
}

}  // namespace
}  // namespace reprise
