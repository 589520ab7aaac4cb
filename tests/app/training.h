// The training commands on the small models and data of tests/fixtures/training.
#pragma once

#include "app/commands.h"
#include "support/error_text.h"
#include "support/fixtures.h"

#include <reprise/report/metrics_file.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace reprise::testing {

using Words = std::vector<std::string>;

inline std::string training_fixture(const std::string& name) {
  return (fixtures() / "training" / name).string();
}

class Training : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return path(name);
  }

  /// `reprise objective` with a small model, three steps, and these words after it.
  ProgramResult train(const std::string& objective, const Words& more) const {
    Words words{objective,
                "--output_dir",
                path("out"),
                "--cache_dir",
                path("cache"),
                "--device",
                "cpu",
                "--max_steps",
                "3",
                "--per_device_train_batch_size",
                "4"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  ProgramResult sft(const std::string& data, Words more = {}) const {
    more.insert(more.begin(), {"--model", training_fixture("models/policy"), "--data", data});
    return train("sft", more);
  }

  std::vector<Json> metrics() const {
    return MetricsFile::read(folder_.path() / "out" / "metrics.jsonl");
  }

  TemporaryFolder folder_;
};

}  // namespace reprise::testing
