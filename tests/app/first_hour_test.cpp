// docs/first-hour.md: its commands run as they are written, and say what it says they do.
#include "app/documented_commands.h"

namespace reprise {
namespace {

using testing::contains;

/// A command behind "$ ", and whether "^C" is among what it printed.
struct Typed {
  std::string command;
  bool is_interrupted = false;
};

std::vector<Typed> typed_commands() {
  std::istringstream lines(testing::document("docs/first-hour.md"));
  std::vector<Typed> all;
  bool goes_on = false;
  for (std::string line; std::getline(lines, line);) {
    if (goes_on) {
      all.back().command += "\n" + line;
    } else if (line.rfind("$ ", 0) == 0) {
      all.push_back({line.substr(2)});
    } else if (line.rfind("^C", 0) == 0) {
      all.back().is_interrupted = true;
    }
    goes_on = !all.empty() && !line.empty() && line.back() == '\\';
  }
  return all;
}

class FirstHour : public testing::DocumentedCommands {};

TEST_F(FirstHour, RunsAsItIsWritten) {
  bool is_resumed = false;
  for (const auto& [command, is_interrupted] : typed_commands()) {
    if (!contains(command, "reprise ")) {
      continue;  // script/build, and opening a browser
    }
    if (is_interrupted) {
      // A shell's background processes ignore SIGINT; SIGTERM means the same to a run.
      const auto said = expect_runs(
          command +
          " & run=$!; until grep -q . long/metrics.jsonl 2>/dev/null || ! kill -0 $run; do "
          "sleep 0.05; done; kill -TERM $run; wait $run || true");
      EXPECT_TRUE(contains(said, "stopped after step")) << said;
      continue;
    }
    const auto said = expect_runs(command);
    if (contains(command, "--resume_from_checkpoint auto")) {
      is_resumed = contains(said, "resuming after step");
    }
    if (contains(command, "echo \"Hello.\"")) {
      EXPECT_EQ(said, "Hello. What can I do for you?\n");
    }
  }
  EXPECT_TRUE(is_resumed);
  EXPECT_TRUE(std::filesystem::exists(path("merged/model.safetensors")));
  EXPECT_TRUE(std::filesystem::exists(path("tuned/report.html")));
}

}  // namespace
}  // namespace reprise
