// Command lines of training commands, parsed as the program parses them.
#pragma once

#include "reprise/training/flags/flags.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace reprise::testing {

using Words = std::vector<std::string>;

/// What the command cannot do without.
inline Words required_words(Objective objective) {
  Words words{"--model", "m", "--data", "d.jsonl", "--output_dir", "out"};
  if (objective == Objective::Kd) {
    words.insert(words.end(), {"--teacher_model", "t"});
  }
  if (objective == Objective::Grpo || objective == Objective::Ppo) {
    words.insert(words.end(), {"--reward_function", "exact_match"});
  }
  return words;
}

/// `reprise OBJECTIVE words...`
inline app::TrainingFlags parse_exactly(Objective objective, Words words) {
  CLI::App program;
  program.require_subcommand(1);
  CLI::App* command = program.add_subcommand(to_string(objective), "");
  const auto flags = app::add_training_flags(*command, objective);
  command->callback([command, flags] { app::finish_flags(*command, *flags); });
  words.insert(words.begin(), to_string(objective));
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  program.parse(words);
  return *flags;
}

/// The same behind what is required.
inline app::TrainingFlags parse(Objective objective, const Words& words = {}) {
  Words all = required_words(objective);
  all.insert(all.end(), words.begin(), words.end());
  return parse_exactly(objective, std::move(all));
}

inline std::string parse_error(Objective objective, const Words& words) {
  return error_of([&] { parse(objective, words); });
}

/// Flags of an objective that are refused, and a part of the message that says why.
struct Refusal {
  Objective objective;
  Words words;
  std::string reason;
};

inline void expect_refused(const Refusal& refusal) {
  const std::string message = parse_error(refusal.objective, refusal.words);
  EXPECT_NE(message.find(refusal.reason), std::string::npos) << "found: " << message;
}

/// A config file that is gone after the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }
  std::string path() const { return (folder_ / "run.yaml").string(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace reprise::testing
