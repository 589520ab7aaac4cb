// A model that `init` makes, for tests of the commands, and their output as JSON.
#pragma once

#include "support/program.h"

#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::string training_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "The quick brown fox jumps over the lazy dog, and number " + std::to_string(i * i) +
            " comes after it. Żółw, naïve, 日本語 und so weiter!\n";
  }
  return text;
}

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(parse_json(line, "output"));
  }
  return lines;
}

inline void expect_refused(const ProgramResult& result, const std::string& message) {
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.err.starts_with("reprise: ")) << result.err;
  EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

/// Every test suite makes its own model, once.
class Commands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    std::ofstream(folder_->path() / "text") << training_text();
    const auto made = run_program({"init", "--text", path("text"), "--output", path("model")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return (folder_->path() / name).string(); }
  /// The folder's entries, to see that nothing is left over.
  static size_t entries() {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_->path()), {}));
  }
  static std::vector<Json> run_lines(std::vector<std::string> arguments, const std::string& input) {
    arguments.insert(arguments.begin() + 1, {"--model", path("model")});
    const auto result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json_lines(result.out);
  }

 private:
  static inline std::unique_ptr<TemporaryFolder> folder_;
};

}  // namespace reprise::testing
