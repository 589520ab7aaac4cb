#include "reprise/generation_options.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::app {

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  auto& sampling = options.sampling;
  command
      .add_option(
          "--max_new_tokens", options.max_new_tokens, "Largest number of tokens to generate")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24));
  command
      .add_option("--temperature",
                  sampling.temperature,
                  "Sampling temperature; 0: always the most likely token")
      ->capture_default_str();
  command.add_option("--top_k", sampling.top_k, "Sample from the k most likely tokens; 0: off")
      ->capture_default_str();
  command
      .add_option("--top_p",
                  sampling.top_p,
                  "Sample from the smallest set of tokens with this total probability; 1: off")
      ->capture_default_str();
  command
      .add_option("--min_p",
                  sampling.min_p,
                  "Sample from tokens with at least this probability, relative to the most likely "
                  "one; 0: off")
      ->capture_default_str();
  command
      .add_option("--repetition_penalty",
                  sampling.repetition_penalty,
                  "Above 1: tokens that have occurred become less likely")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "Random seed")->capture_default_str();
  command.add_option("--stop", options.stop, "Stop at this text; may be repeated")
      ->allow_extra_args(false);
}

void check_generation_effects(const CLI::App& command, const GenerationOptions& options) {
  const SamplingOptions& sampling = options.sampling;
  const bool draws = sampling.temperature != 0 && options.max_new_tokens > 0;
  // "Off" values ask for nothing.
  const std::pair<const char*, bool> settings[] = {{"--top_k", sampling.top_k != 0},
                                                   {"--top_p", sampling.top_p != 1},
                                                   {"--min_p", sampling.min_p != 0},
                                                   {"--seed", true}};
  for (const auto& [name, asks_for_something] : settings) {
    TORCH_CHECK(
        draws || !asks_for_something || command.count(name) == 0,
        name,
        " has no effect with ",
        sampling.temperature == 0
            ? "--temperature 0 (the default), which always takes the most likely token; give, "
              "say, --temperature 1"
            : "--max_new_tokens 0, which generates nothing");
  }
}

GenerateOptions generate_options(const GenerationOptions& options, const LanguageModel& opened) {
  GenerateOptions result;
  result.sampling = options.sampling;
  result.max_new_tokens = options.max_new_tokens;
  result.stop_ids = opened.stop_ids;
  result.stop_strings = options.stop;
  result.pad_id = opened.pad_id;
  TORCH_CHECK(options.stop.empty() || opened.tokenizer != nullptr,
              "--stop: the model has no tokenizer to find text with");
  if (opened.tokenizer != nullptr) {
    result.decode = [tokenizer = opened.tokenizer](const TokenIds& ids) {
      return tokenizer->decode(ids, /*skip_special_tokens=*/true);
    };
  }
  return result;
}

std::string completion_text(const TokenIds& ids,
                            const Tokenizer* tokenizer,
                            const std::vector<std::string>& stop) {
  if (tokenizer == nullptr) {
    return {};
  }
  auto text = tokenizer->decode(ids, /*skip_special_tokens=*/true);
  size_t end = text.size();
  for (const auto& string : stop) {
    end = std::min(end, text.find(string));
  }
  text.resize(end);
  return text;
}

}  // namespace reprise::app
