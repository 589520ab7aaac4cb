// What is wrong with the inputs of a run is said before rows are tokenised and weights are read.
#include "app/training.h"

#include <unistd.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::expect_refused;
using testing::training_fixture;
using testing::Words;

class TrainingInputs : public testing::Training {
 protected:
  /// Nothing was printed but the error, nothing tokenised and nothing made.
  void expect_refused_at_once(const testing::ProgramResult& result, const std::string& message) {
    expect_refused(result, message);
    EXPECT_FALSE(fs::exists(path("out")));
    EXPECT_FALSE(fs::exists(path("cache")));
  }
};

TEST_F(TrainingInputs, AreLookedAtBeforeAnythingIsRead) {
  const std::string data = training_fixture("data/sft_text.jsonl");
  expect_refused_at_once(sft(path("none.jsonl")),
                         "--data " + path("none.jsonl") + ": No such file or directory");
  expect_refused_at_once(sft(data + "," + path("none.jsonl")), "none.jsonl: No such file");
  expect_refused_at_once(sft(folder_.path().string()), ": is a folder, not a file");
  expect_refused_at_once(sft(data, {"--eval_data", path("none.jsonl")}),
                         "--eval_data " + path("none.jsonl") + ": No such file or directory");
  expect_refused_at_once(sft(data, {"--chat_template", path("none.jinja")}),
                         "--chat_template " + path("none.jinja") + ": No such file or directory");
  expect_refused_at_once(sft(data, {"--memory_plan", path("none.json")}), "--memory_plan ");
  expect_refused_at_once(sft(data, {"--resume_from_checkpoint", path("none")}),
                         path("none") + ": is not a checkpoint of a training run");
}

TEST_F(TrainingInputs, AreModelsToo) {
  const Words data{"--data", training_fixture("data/sft_completion.jsonl")};
  const auto with = [&](Words words) {
    words.insert(words.end(), data.begin(), data.end());
    return words;
  };
  expect_refused_at_once(train("sft", with({"--model", path("none")})),
                         "--model " + path("none") + ": no such folder");
  expect_refused_at_once(
      train("kd",
            with({"--model", training_fixture("models/policy"), "--teacher_model", path("none")})),
      "--teacher_model " + path("none") + ": no such folder");
  fs::copy(training_fixture("models/policy"), path("no_weights"));
  fs::remove(path("no_weights/model.safetensors"));
  expect_refused_at_once(train("sft", with({"--model", path("no_weights")})), "safetensors");
  fs::copy(training_fixture("models/policy"), path("no_tokenizer"));
  fs::remove(path("no_tokenizer/tokenizer.json"));
  expect_refused_at_once(train("sft", with({"--model", path("no_tokenizer")})), "tokenizer");
}

TEST_F(TrainingInputs, AreRewardsToo) {
  const auto data = write("prompts.jsonl", "{\"prompt\": \"One and one is\"}\n");
  const auto grpo = [&](const Words& more) {
    Words words{"grpo",
                "--model",
                training_fixture("models/policy"),
                "--data",
                data,
                "--output_dir",
                path("out"),
                "--max_completion_length",
                "8"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::run_program(words);
  };
  expect_refused_at_once(grpo({"--reward_url", "nonsense"}), "expected a URL such as");
  expect_refused_at_once(grpo({"--reward_function", "no_such_function"}), "no_such_function");
  expect_refused_at_once(grpo({"--reward_command", "while read line; do echo"}),
                         "--reward_command: the shell cannot parse this command");
  expect_refused_at_once(grpo({"--reward_command", "no_such_program --fast"}),
                         "--reward_command: there is no program no_such_program");
  expect_refused_at_once(grpo({"--reward_model", training_fixture("models/policy")}),
                         "expected a reward model");
}

TEST_F(TrainingInputs, IncludeAFolderThatCanBeWritten) {
  const auto into = [&](const std::string& output) {
    return testing::run_program({"sft",
                                 "--model",
                                 training_fixture("models/policy"),
                                 "--data",
                                 training_fixture("data/sft_text.jsonl"),
                                 "--cache_dir",
                                 path("cache"),
                                 "--output_dir",
                                 output});
  };
  const auto file = write("file", "in the way");
  expect_refused(into(file), "--output_dir " + file + ": is a file");
  expect_refused(into(file + "/below"), "cannot be written");
  if (geteuid() != 0) {  // root may write anywhere
    fs::create_directory(path("closed"));
    fs::permissions(path("closed"), fs::perms::owner_read | fs::perms::owner_exec);
    expect_refused(into(path("closed/out")), "Permission denied");
  }
  EXPECT_FALSE(fs::exists(path("cache")));
}

}  // namespace
}  // namespace reprise
