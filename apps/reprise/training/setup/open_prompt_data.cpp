#include "reprise/training/setup/open_prompt_data.h"

#include "reprise/training/setup/open_data.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <vector>

namespace reprise::app {

namespace {

// --max_prompt_length, or what completions leave of the model's positions.
int64_t prompt_limit(const TrainingFlags& flags, const ModelConfig& config) {
  const bool is_learned = config.has_learned_positions;
  TORCH_CHECK(!is_learned || !flags.allow_untrained_positions,
              "--allow_untrained_positions has no effect: --model ",
              flags.model,
              " has ",
              config.max_positions,
              " learned positions, and no others");
  const int64_t room = config.max_positions - flags.max_completion_length;
  const bool is_free = flags.allow_untrained_positions && flags.max_prompt_length > 0;
  const std::string advice =
      is_learned ? std::string()
                 : ". Give --allow_untrained_positions " +
                       std::string(flags.max_prompt_length > 0 ? "" : "and --max_prompt_length ") +
                       "to go beyond them";
  TORCH_CHECK(is_free || room > 0,
              "--max_completion_length ",
              flags.max_completion_length,
              " leaves no room for prompts: --model ",
              flags.model,
              " has ",
              config.max_positions,
              " positions",
              advice);
  TORCH_CHECK(is_free || flags.max_prompt_length <= room,
              "--max_prompt_length ",
              flags.max_prompt_length,
              " and --max_completion_length ",
              flags.max_completion_length,
              " are ",
              flags.max_prompt_length + flags.max_completion_length,
              " tokens together: --model ",
              flags.model,
              " has ",
              config.max_positions,
              " positions",
              advice);
  return flags.max_prompt_length > 0 ? flags.max_prompt_length : room;
}

PromptOptions prompt_options(const TrainingFlags& flags, const ModelConfig& config) {
  PromptOptions options;
  options.max_prompt_length = prompt_limit(flags, config);
  options.long_prompts =
      flags.long_prompts == "keep_end" ? LongPrompts::KeepEnd : LongPrompts::Drop;
  options.input_template = flags.input_template;
  if (!flags.chat_template.empty()) {
    options.chat_template = read_file(flags.chat_template);
  }
  options.keys = flags.keys;
  options.skip_bad_rows = flags.skip_bad_rows;
  options.max_samples = flags.max_samples;
  options.seed = flags.seed;
  return options;
}

std::shared_ptr<const PromptSet> open_and_report(const std::string& files,
                                                 const PromptData& data,
                                                 const PromptOptions& options,
                                                 std::string& truncated,
                                                 ProgressLine& progress) {
  const auto prompts = open_prompts(parse_data_files(files), data.tokenizer, options);
  const PromptReport& report = prompts->report();
  truncated = print_report(files,
                           report,
                           prompts->size(),
                           "prompts",
                           {"max_prompt_length", options.max_prompt_length},
                           progress);
  if (report.prompts_shortened > 0) {
    progress.print("  " + std::to_string(report.prompts_shortened) + " truncated to their last " +
                   std::to_string(options.max_prompt_length) + " tokens");
  }
  if (report.answers_cut_off > 0) {
    progress.print("  " + std::to_string(report.answers_cut_off) +
                   " had an assistant turn at their end removed, which the policy is to write");
  }
  return prompts;
}

std::shared_ptr<const Dataset> open_pretraining(const TrainingFlags& flags,
                                                const PromptData& data,
                                                ProgressLine& progress) {
  RowOptions rows;
  rows.objective = Objective::Sft;
  rows.max_length = flags.ptx_max_length;
  DatasetOptions options;
  options.files = parse_data_files(flags.ptx_data);
  options.cache = flags.cache_dir;
  options.skip_bad_rows = flags.skip_bad_rows;
  options.seed = flags.seed;
  options.tokenizer_key = tokenizer_key(tokenizer_folder(flags));
  const auto opened = open_dataset(RowTokenizer(data.tokenizer, rows), options);
  print_report(flags.ptx_data,
               opened.report,
               opened.dataset->size(),
               "examples",
               {"ptx_max_length", flags.ptx_max_length},
               progress);
  check_positions(flags,
                  {{"--ptx_data " + flags.ptx_data, longest_of(*opened.dataset), "ptx_max_length"}},
                  progress);
  return opened.dataset;
}

std::string key_of(const TrainingFlags& flags) {
  std::vector<std::filesystem::path> files;
  for (const auto& names : {flags.data, flags.ptx_data}) {
    if (!names.empty()) {
      for (const auto& file : parse_data_files(names)) {
        files.push_back(file.path);
      }
    }
  }
  if (!flags.chat_template.empty()) {
    files.emplace_back(flags.chat_template);
  }
  return content_hash(files, {{"tokenizer", tokenizer_key(tokenizer_folder(flags))}});
}

void show_first_prompt(const PromptSet& prompts, ProgressLine& progress) {
  const auto prompt = prompts.at(0);
  progress.print("The first prompt (" + prompts.location_name(prompt.location) + "), " +
                 std::to_string(prompt.ids.size()) + " tokens:\n  ----\n" + prompt.text +
                 "\n  ----");
}

}  // namespace

PromptData open_prompt_data(const TrainingFlags& flags,
                            const ModelConfig& config,
                            ProgressLine& progress) {
  PromptData data;
  data.tokenizer = open_tokenizer(tokenizer_folder(flags), config);
  const auto options = prompt_options(flags, config);
  data.train = open_and_report(flags.data, data, options, data.truncation, progress);
  if (!flags.eval_data.empty()) {
    data.evaluation =
        open_and_report(flags.eval_data, data, options, data.evaluation_truncation, progress);
  }
  if (!flags.ptx_data.empty()) {
    data.pretraining = open_pretraining(flags, data, progress);
  }
  if (flags.show_example) {
    show_first_prompt(*data.train, progress);
  }
  data.key = key_of(flags);
  return data;
}

}  // namespace reprise::app
