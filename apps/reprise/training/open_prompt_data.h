// The data of grpo and ppo: prompts, and rows to pretrain on beside them.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"

#include <reprise/data/dataset.h>
#include <reprise/data/prompts.h>
#include <reprise/model/config.h>
#include <reprise/text/tokenizer.h>

#include <memory>
#include <string>

namespace reprise::app {

struct PromptData {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const PromptSet> train;
  std::shared_ptr<const PromptSet> evaluation;  ///< null: none
  std::shared_ptr<const Dataset> pretraining;   ///< null: none
  std::string key;  ///< names the prompts and rows and their order, by content
};

/// Reads and tokenises all of it, and prints what was found and dropped; with --show_example the
/// first prompt too. `config` is of the policy: throws if it has no room for prompt and completion,
/// or fewer tokens than its tokenizer.
PromptData open_prompt_data(const TrainingFlags& flags,
                            const ModelConfig& config,
                            ProgressLine& progress);

}  // namespace reprise::app
