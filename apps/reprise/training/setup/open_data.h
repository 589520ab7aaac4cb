// The data of a training command.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/setup/row_lengths.h"

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/model/config.h>
#include <reprise/text/tokenizer.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise::app {

struct TrainingData {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> evaluation;  ///< null: none
  CollateOptions collate;
  bool ends_with_pad = false;         ///< rm: some row ends with the tokenizer's pad token
  std::vector<LongestRow> longest;    ///< of --data and --eval_data
  std::string truncation = "none";    ///< of --data: see truncation_text()
  std::string evaluation_truncation;  ///< empty: no evaluation
  /// Identify the examples and their order, for caches.
  std::string train_key, evaluation_key;
};

/// Tokenises the data or reads it from the cache, packs it, and prints a summary; with
/// --show_example also the first example. Throws if the tokenizer has more tokens than the model.
TrainingData open_training_data(const TrainingFlags& flags,
                                const ModelConfig& config,
                                ProgressLine& progress);

/// The folder with the policy's tokenizer: see tokenizer_folder().
std::string tokenizer_folder(const TrainingFlags& flags);

/// The tokenizer of a model folder. Throws if it has more tokens than the model.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& folder,
                                                const ModelConfig& config);

/// What rows are padded with: the tokenizer's pad token, or its end token. Padding is masked, so
/// any id of the vocabulary works.
int64_t pad_id_of(const Tokenizer& tokenizer);

/// Prints what was read from `files`, how many are `kept`, what was dropped and what truncation
/// takes away. `unit`: "examples" or "prompts". Returns the part about truncation, or "none".
std::string print_report(const std::string& files,
                         const DatasetReport& report,
                         int64_t kept,
                         const std::string& unit,
                         const LengthLimit& limit,
                         ProgressLine& progress);

}  // namespace reprise::app
