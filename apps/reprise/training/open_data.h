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

}  // namespace reprise::app
