// grpo and ppo on the small models of tests/fixtures/training: a policy that writes a few tokens,
// and is rewarded for some of them.
#pragma once

#include "app/training.h"

#include <string>

namespace reprise::testing {

class OnlineTraining : public Training {
 protected:
  /// `reprise objective` with four prompts, two samples of each, and these words after it.
  ProgramResult online(const std::string& objective, const Words& more) {
    Words words{objective,
                "--model",
                training_fixture("models/policy"),
                "--data",
                write("prompts.jsonl", kPrompts),
                "--output_dir",
                path("out"),
                "--device",
                "cpu",
                "--max_steps",
                "2",
                "--per_device_train_batch_size",
                "4",
                "--num_generations",
                "2",
                "--max_completion_length",
                "8",
                "--learning_rate",
                "1e-2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  /// grpo with a reward that needs no column.
  ProgramResult grpo(Words more) {
    more.insert(more.begin(), {"--reward_function", "regex:pattern=[aeiou]"});
    return online("grpo", more);
  }

  /// ppo with a reward model.
  ProgramResult ppo(Words more) {
    more.insert(more.begin(), {"--reward_model", training_fixture("models/score")});
    return online("ppo", more);
  }

  std::string weights(const std::string& file = "out/model.safetensors") const {
    return read_text(path(file));
  }

  static constexpr const char* kPrompts = R"({"prompt": "One and one is", "answer": "2"}
{"prompt": "Two and one is", "answer": "3"}
{"prompt": "Two and two is", "answer": "4"}
{"prompt": "Five and two is", "answer": "7"}
)";
};

}  // namespace reprise::testing
