// What tests of prompts share: rows written to a file and opened, and what was wrong with them.
#pragma once

#include "data/row_cases.h"
#include "support/temporary_folder.h"

#include <reprise/data/prompts.h>
#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {

inline constexpr const char* kChatPrompt = R"({"prompt": [{"role": "user", "content": "2+2?"}]})";

class Prompts : public ::testing::Test {
 protected:
  std::shared_ptr<const PromptSet> open(const std::string& rows,
                                        const PromptOptions& options = {},
                                        const std::string& tokenizer = "qwen2") const {
    write_file(folder_ / "rows.jsonl", rows);
    return open_prompts({{folder_ / "rows.jsonl"}}, row_tokenizer(tokenizer), options);
  }

  Prompt first(const std::string& row,
               const PromptOptions& options = {},
               const std::string& tokenizer = "qwen2") const {
    return open(row, options, tokenizer)->at(0);
  }

  void expect_refused(const std::string& rows,
                      const std::string& reason,
                      const PromptOptions& options = {}) const {
    SCOPED_TRACE(rows);
    expect_error([&] { open(rows, options); }, reason);
  }

  std::string place(int64_t line) const {
    return (folder_ / "rows.jsonl").string() + ":" + std::to_string(line);
  }

  TemporaryFolder folder_;
};

inline std::vector<std::string> texts(const PromptSet& prompts) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < prompts.size(); ++i) {
    all.push_back(prompts.at(i).text);
  }
  return all;
}

}  // namespace reprise::testing
