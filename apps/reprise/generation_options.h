// How `generate` and `chat` choose tokens and when they end.
#pragma once

#include "reprise/model_options.h"

#include <reprise/model/generate.h>

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace reprise::app {

struct GenerationOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling;
  std::vector<std::string> stop;
};

/// Adds --max_new_tokens, --temperature, --top_k, --top_p, --min_p, --repetition_penalty, --seed
/// and --stop.
void add_generation_options(CLI::App& command, GenerationOptions& options);

/// What generate() is told: these options, the model's own stop ids, and its tokenizer to decode
/// with.
GenerateOptions generate_options(const GenerationOptions& options, const LanguageModel& opened);

/// The text of new tokens as a user sees it: no special tokens, and nothing from a stop string on.
/// Empty without a tokenizer.
std::string completion_text(const TokenIds& ids,
                            const Tokenizer* tokenizer,
                            const std::vector<std::string>& stop);

}  // namespace reprise::app
