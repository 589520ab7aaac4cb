// The cases of tests/fixtures/rows: rows, and what TRL's trainers make of them (generate_rows.py).
#pragma once

#include <reprise/data/rows.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include "support/fixtures.h"

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {

/// "qwen2" (no BOS, ChatML with {% generation %}), "qwen3" (tools, thinking), or "llama3" (BOS).
inline std::shared_ptr<const Tokenizer> row_tokenizer(const std::string& name) {
  static const Json all = read_json(fixtures() / "rows" / "tokenizers.json");
  const auto folder = fixtures() / "tokenizers" / all.at(name)["folder"].get<std::string>();
  return Tokenizer::from_json(
      read_file(folder / "tokenizer.json"), folder.string(), all[name]["config"]);
}

struct RowCase {
  std::string name;
  Json json;

  RowOptions options() const {
    const Json& given = json["options"];
    RowOptions result;
    result.objective = objective();
    result.max_length = given["max_length"].is_null() ? 0 : given["max_length"].get<int64_t>();
    result.assistant_only_loss = given.value("assistant_only_loss", false);
    if (given.contains("completion_only_loss")) {
      result.completion_only_loss = given["completion_only_loss"].get<bool>();
    }
    if (given.value("truncation_mode", "") == "keep_end") {
      result.truncation = TruncationSide::KeepEnd;
    }
    result.step_separator = given.value("step_separator", "\n");
    result.train_on_last_step_only = given.value("train_on_last_step_only", false);
    if (json["objective"] == "placeholders") {
      result.prm = PrmConvention::Placeholders;
      result.placeholder_token = "+";
      if (!given["reward_tokens"].is_null()) {
        result.reward_tokens = given["reward_tokens"].get<std::vector<std::string>>();
      }
    }
    return result;
  }

  RowTokenizer tokenizer() const {
    return {row_tokenizer(json["tokenizer"].get<std::string>()), options()};
  }

 private:
  Objective objective() const {
    const auto name_in_file = json["objective"].get<std::string>();
    for (const Objective one : {Objective::Sft, Objective::Rm, Objective::Dpo, Objective::Kto}) {
      if (to_string(one) == name_in_file) {
        return one;
      }
    }
    TORCH_CHECK(name_in_file == "prm" || name_in_file == "placeholders", name_in_file);
    return Objective::Prm;
  }
};

inline std::vector<RowCase> row_cases() {
  std::vector<RowCase> cases;
  for (const Json& json : read_json(fixtures() / "rows" / "cases.json")) {
    cases.push_back({json["name"].get<std::string>(), json});
  }
  return cases;
}

}  // namespace reprise::testing
