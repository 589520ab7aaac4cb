// `reprise generate`: continue one prompt, or every line of standard input.
#include "reprise/commands.h"
#include "reprise/generation_options.h"
#include "reprise/json_lines.h"
#include "reprise/model_options.h"
#include "reprise/text_record.h"
#include "reprise/text_stream.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

struct GenerateCommand {
  ModelOptions model;
  GenerationOptions generation;
  std::optional<std::string> prompt;
  bool chat = false;
  int64_t num_samples = 1;
  int64_t batch_size = 8;
};

constexpr RecordOptions kRecord{.text_field = "prompt", .add_generation_prompt = true};

TokenizedText tokenize_prompt(const GenerateCommand& options, const Tokenizer* tokenizer) {
  if (options.chat) {
    const Json message = {{"role", "user"}, {"content", *options.prompt}};
    return tokenize_record({{"messages", Json::array({message})}}, tokenizer, kRecord);
  }
  return tokenize_record({{"prompt", *options.prompt}}, tokenizer, kRecord);
}

// Prints the text while it is generated.
void continue_as_text(const LanguageModel& opened,
                      const TokenIds& prompt,
                      const GenerateCommand& options) {
  auto settings = generate_options(options.generation, opened);
  TextStream stream(opened.tokenizer, options.generation.stop);
  settings.on_token = [&](int64_t, int64_t token) {
    std::cout << stream.push(token) << std::flush;
  };
  generate(*opened.model, {prompt}, settings);
  std::cout << stream.finish() << "\n";
}

// At most --batch_size continuations are generated at a time, and printed as soon as they are
// there: memory does not depend on --num_samples. Random numbers depend on prompt and sample, not
// on how they are batched.
class LineGeneration {
 public:
  LineGeneration(const LanguageModel& opened, const GenerateCommand& options)
      : opened_(opened),
        options_(options),
        settings_(generate_options(options.generation, opened)) {}

  // How many prompts run() takes at a time.
  int64_t prompts_per_batch() const {
    return std::max<int64_t>(options_.batch_size / options_.num_samples, 1);
  }

  void run(const std::vector<TokenizedText>& batch) {
    std::vector<TokenIds> prompts;
    prompts.reserve(batch.size());
    for (const auto& prompt : batch) {
      prompts.push_back(prompt.ids);
    }
    for (int64_t first = 0; first < options_.num_samples; first += options_.batch_size) {
      settings_.first_sample = first;
      settings_.samples_per_prompt = std::min(options_.batch_size, options_.num_samples - first);
      const auto results = generate(*opened_.model, prompts, settings_);
      for (size_t i = 0; i < results.size(); ++i) {
        print(batch[i / static_cast<size_t>(settings_.samples_per_prompt)], results[i]);
      }
      std::cout.flush();
    }
    settings_.first_prompt += std::ssize(batch);
  }

 private:
  void print(const TokenizedText& prompt, const Generated& result) const {
    print_json_line(
        {{"prompt", prompt.text},
         {"completion",
          completion_text(result.ids, opened_.tokenizer.get(), options_.generation.stop)},
         {"input_ids", prompt.ids},
         {"completion_ids", result.ids},
         {"finish_reason", result.is_finished ? "stop" : "length"}});
  }

  const LanguageModel& opened_;
  const GenerateCommand& options_;
  GenerateOptions settings_;
};

void continue_lines(const LanguageModel& opened, const GenerateCommand& options) {
  if (isatty(STDIN_FILENO) != 0) {
    std::cerr << "reading JSON lines from standard input; --prompt gives one prompt\n";
  }
  LineGeneration generation(opened, options);
  const auto read = [&](const Json& record) {
    auto prompt = tokenize_record(record, opened.tokenizer.get(), kRecord);
    TORCH_CHECK(!prompt.ids.empty(), "the prompt has no tokens");
    check_ids(prompt.ids, opened.model->config());
    return prompt;
  };
  for_each_batch(std::cin, generation.prompts_per_batch(), read, [&](const auto& batch) {
    generation.run(batch);
  });
}

void run_generate(const GenerateCommand& options) {
  const auto opened = open_language_model(options.model);
  const auto autocast = autocast_scope(opened);
  if (!options.prompt) {
    continue_lines(opened, options);
    return;
  }
  auto prompt = tokenize_prompt(options, opened.tokenizer.get());
  TORCH_CHECK(!prompt.ids.empty(), "--prompt: has no tokens");
  if (options.num_samples == 1) {
    continue_as_text(opened, prompt.ids, options);
    return;
  }
  LineGeneration generation(opened, options);
  generation.run({std::move(prompt)});
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommand>();
  auto* command = app.add_subcommand("generate", "Generate continuations of one prompt or many.");
  command->footer(
      "With --prompt, prints the continuation as text (several samples as JSON lines).\n"
      "Without it, reads JSON lines: {\"prompt\": ..} or {\"text\": ..}, {\"messages\": [..]} or "
      "{\"input_ids\": [..]}, "
      "and writes for each sample {\"prompt\": .., \"completion\": .., \"input_ids\": [..], "
      "\"completion_ids\": [..], \"finish_reason\": \"stop\" or \"length\"}.");
  add_model_options(*command, options->model);
  add_precision_options(*command, options->model);
  auto* prompt = command->add_option("--prompt", options->prompt, "Text to continue");
  command
      ->add_flag("--chat",
                 options->chat,
                 "Treat the prompt as a user's message and apply the chat template")
      ->needs(prompt);
  add_generation_options(*command, options->generation);
  command->add_option("--num_samples", options->num_samples, "Continuations per prompt")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--batch_size", options->batch_size, "Continuations generated at a time")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->callback([options, command] {
    check_generation_effects(*command, options->generation);
    TORCH_CHECK(command->count("--batch_size") == 0 || !options->prompt || options->num_samples > 1,
                "--batch_size has no effect on one continuation of --prompt");
    run_generate(*options);
  });
}

}  // namespace reprise::app
