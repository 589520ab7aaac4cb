// Data files of a training command, as the loop takes them.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/model/config.h>
#include <reprise/text/tokenizer.h>

#include <memory>

namespace reprise::app {

struct TrainingData {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> evaluation;  ///< null: none
  CollateOptions collate;
  /// Name the examples and their order, for caches of what is made of them.
  std::string train_key, evaluation_key;
};

/// Tokenises (or finds in the cache), packs, and prints what was found and dropped; with
/// --show_example the first example too. Throws if the tokenizer has ids that the model has not.
TrainingData open_training_data(const TrainingFlags& flags,
                                const ModelConfig& config,
                                ProgressLine& progress);

/// The tokenizer of a model folder. Throws if it has ids that the model has not.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& folder,
                                                const ModelConfig& config);

/// The model's own, or the tokenizer's. Any id will do for what is masked, but a score head finds a
/// row's end by the model's own.
int64_t pad_id_of(const ModelConfig& config, const Tokenizer& tokenizer);

/// What was read from `files`, of which so many are `kept` ("examples", "prompts"), and what was
/// dropped.
void print_report(const std::string& files,
                  const DatasetReport& report,
                  int64_t kept,
                  const std::string& unit,
                  ProgressLine& progress);

}  // namespace reprise::app
