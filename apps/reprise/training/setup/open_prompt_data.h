// The data of grpo and ppo: prompts and pretraining rows.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"

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
  std::string key;                              ///< identifies the content of the data
  std::string truncation;                       ///< of --data: see truncation_text()
  std::string evaluation_truncation;            ///< empty: no evaluation
};

/// Reads and tokenises the data and prints a summary; with --show_example also the first prompt.
/// Throws if the policy (`config`) has too few positions for a prompt with its completion, or fewer
/// tokens than its tokenizer.
PromptData open_prompt_data(const TrainingFlags& flags,
                            const ModelConfig& config,
                            ProgressLine& progress);

}  // namespace reprise::app
