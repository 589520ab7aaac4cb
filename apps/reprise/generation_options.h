// How `generate` and `chat` sample tokens, and when they stop.
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

/// Throws for options that were given and change nothing: greedy decoding draws no samples.
void check_generation_effects(const CLI::App& command, const GenerationOptions& options);

/// Options of generate(): these, the model's stop ids, and its tokenizer for decoding.
GenerateOptions generate_options(const GenerationOptions& options, const LanguageModel& opened);

/// The text of new tokens without special tokens, up to the first stop string.
/// Empty without a tokenizer.
std::string completion_text(const TokenIds& ids,
                            const Tokenizer* tokenizer,
                            const std::vector<std::string>& stop);

}  // namespace reprise::app
