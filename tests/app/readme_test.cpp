// The command lines of README.md run as they are written, on small stand-ins for their files.
#include "app/documented_commands.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;

/// The lines of the section "In your shell", without their comments.
std::vector<std::string> readme_commands() {
  const std::string text = testing::document("README.md");
  const auto section = text.find("## In your shell");
  const auto begin = text.find("```\n", section) + 4;
  std::istringstream block(text.substr(begin, text.find("```", begin) - begin));
  std::vector<std::string> commands;
  for (std::string line; std::getline(block, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(' ') != std::string::npos) {
      commands.push_back(line);
    }
  }
  return commands;
}

class Readme : public testing::DocumentedCommands {
 protected:
  void SetUp() override {
    DocumentedCommands::SetUp();
    std::string text, chats, pairs, problems, prompts;
    for (int i = 1; i <= 16; ++i) {
      const std::string n = std::to_string(i), sum = std::to_string(i + i);
      const std::string question = "\"" + n + " and " + n + " is\"";
      text += n + " and " + n + " is " + sum + ".\n";
      chats += R"({"messages": [{"role": "user", "content": )" + question +
               R"(}, {"role": "assistant", "content": ")" + sum + "\"}]}\n";
      pairs += R"({"prompt": )" + question + R"(, "chosen": " )" + sum +
               R"(", "rejected": " none"})" + "\n";
      if (i <= 2) {  // completions of untrained models are as long as they may be
        problems += R"({"prompt": )" + question + R"(, "answer": ")" + sum + "\"}\n";
        prompts += R"({"prompt": )" + question + "}\n";
      }
    }
    write("book.txt", text);
    write("chat.jsonl", chats);
    write("train.jsonl", chats);
    write("pairs.jsonl", pairs);
    write("problems.jsonl", problems);
    write("prompts.jsonl", prompts);
  }

  /// What a command takes for granted.
  void prepare(const std::string& command) {
    if (contains(command, "--model M ")) {
      fs::copy(path("model"), path("M"));
    }
    if (contains(command, "--reward_model reward ")) {
      expect_runs("reprise rm --model model --data pairs.jsonl --output_dir reward");
    }
  }
};

TEST_F(Readme, CommandsRunOneAfterTheOther) {
  const auto commands = readme_commands();
  ASSERT_GE(commands.size(), 8U);
  for (const auto& command : commands) {
    prepare(command);
    expect_runs(command);
  }
}

TEST_F(Readme, CommandsRunOnTheAdapterOfTheirFirst) {
  bool has_trained = false;
  for (auto command : readme_commands()) {
    if (contains(command, "reprise launch")) {
      continue;  // on its own model
    }
    if (contains(command, "reprise sft --model")) {
      command += " --lora_r 16";
      has_trained = true;
    }
    prepare(command);
    expect_runs(command);
  }
  EXPECT_TRUE(has_trained);
  EXPECT_TRUE(fs::exists(path("tuned/adapter_model.safetensors")));
  EXPECT_TRUE(fs::exists(path("preferred/adapter_model.safetensors")));
}

}  // namespace
}  // namespace reprise
