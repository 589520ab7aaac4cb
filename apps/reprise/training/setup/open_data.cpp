#include "reprise/training/setup/open_data.h"

#include "reprise/adapter_folder.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

RowOptions row_options(const TrainingFlags& flags, bool packs) {
  RowOptions options;
  options.objective = flags.objective;
  // Packing truncates or splits rows itself.
  options.max_length = packs ? 0 : flags.max_length;
  options.truncation =
      flags.truncation_mode == "keep_end" ? TruncationSide::KeepEnd : TruncationSide::KeepStart;
  options.drop_too_long = flags.drop_too_long;
  options.completion_only_loss = flags.completion_only_loss;
  options.assistant_only_loss = flags.assistant_only_loss;
  options.trained_turns = flags.trained_turns == "last" ? TrainedTurns::Last : TrainedTurns::All;
  options.prm = flags.prm_convention == "placeholders" ? PrmConvention::Placeholders
                                                       : PrmConvention::StepEnds;
  options.step_separator = flags.step_separator;
  options.train_on_last_step_only = flags.train_on_last_step_only;
  options.placeholder_token = flags.placeholder_token;
  options.reward_tokens = flags.reward_tokens;
  options.input_template = flags.input_template;
  if (!flags.chat_template.empty()) {
    options.chat_template = read_file(flags.chat_template);
  }
  options.keys = flags.keys;
  return options;
}

void show_first_example(const Tokenizer& tokenizer, const Dataset& data, ProgressLine& progress) {
  const auto example = data.at(0);
  progress.print("The first example (" + data.location_name(example.location) +
                 "), what is trained on in brackets:");
  for (const auto& sequence : example.sequences) {
    progress.print("  ----\n" + sequence_preview(tokenizer, sequence));
  }
  progress.print("  ----");
}

CollateOptions collate_options(const TrainingFlags& flags, const Tokenizer& tokenizer) {
  CollateOptions options;
  options.pad_id = pad_id_of(tokenizer);
  options.pad_to_multiple_of = flags.pad_to_multiple_of;
  options.packed = flags.packing && flags.packing_strategy != "wrapped";
  options.padding_free = flags.padding_free || options.packed;
  options.mismatch = flags.objective == Objective::Kto && flags.loss_type.front() == "kto";
  options.mismatch_with_next = flags.kl_pairing == "next";
  // A mismatched pair of kto can be longer than the rows it is made from.
  options.max_length = flags.objective == Objective::Kto ? flags.max_length : 0;
  return options;
}

Packing packing_named(const std::string& name) {
  return name == "wrapped"     ? Packing::Wrapped
         : name == "bfd_split" ? Packing::BestFitSplit
                               : Packing::BestFit;
}

std::string data_key(const DatasetOptions& options, const RowOptions& rows) {
  std::vector<std::filesystem::path> files;
  Json weights = Json::array();
  for (const auto& file : options.files) {
    files.push_back(file.path);
    weights.push_back(file.weight);
  }
  return content_hash(files,
                      {{"rows", rows.to_json()},
                       {"tokenizer", options.tokenizer_key},
                       {"weights", weights},
                       {"seed", options.seed},
                       {"max_samples", options.max_samples}},
                      options.cache.empty() ? default_cache_folder() : options.cache);
}

struct OpenedRows {
  std::shared_ptr<const Dataset> rows;
  std::string truncation;
  std::string key;
};

}  // namespace

std::string tokenizer_folder(const TrainingFlags& flags) {
  return tokenizer_folder(ModelFolders{flags.model, flags.adapter});
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& folder,
                                                const ModelConfig& config) {
  auto tokenizer = Tokenizer::open(folder);
  TORCH_CHECK(tokenizer->size() <= config.vocabulary,
              folder,
              ": the tokenizer has ",
              tokenizer->size(),
              " tokens and the model only ",
              config.vocabulary,
              ": they do not belong together, or the model's embeddings were not resized");
  return tokenizer;
}

int64_t pad_id_of(const Tokenizer& tokenizer) {
  const auto& special = tokenizer.special_tokens();
  return special.pad.value_or(special.eos.value_or(0));
}

std::string print_report(const std::string& files,
                         const DatasetReport& report,
                         int64_t kept,
                         const std::string& unit,
                         const LengthLimit& limit,
                         ProgressLine& progress) {
  std::string line = files + ": " + report.format + "; " + std::to_string(report.rows) + " rows, " +
                     std::to_string(kept) + " " + unit;
  if (report.from_cache) {
    line += " (from the cache)";
  }
  progress.print(line);
  for (const auto& [reason, count] : report.dropped) {
    progress.print("  " + std::to_string(count) + " dropped: " + reason);
  }
  const std::string truncation = truncation_text(report.lengths, limit, unit);
  if (!truncation.empty()) {
    const bool is_all = report.lengths.truncated == report.lengths.examples;
    progress.print((is_all ? "warning: " : "  ") + truncation);
  }
  if (report.hint_count > 0) {
    progress.print("  " + report.hint + " (in " + std::to_string(report.hint_count) + " rows)");
  }
  if (report.bad_row_count > 0) {
    progress.print("  " + std::to_string(report.bad_row_count) + " bad rows skipped:");
    for (const auto& row : report.bad_rows) {
      progress.print("    " + row);
    }
  }
  return truncation.empty() ? "none" : truncation;
}

TrainingData open_training_data(const TrainingFlags& flags,
                                const ModelConfig& config,
                                ProgressLine& progress) {
  TrainingData data;
  data.tokenizer = open_tokenizer(tokenizer_folder(flags), config);
  DatasetOptions options;
  options.cache = flags.cache_dir;
  options.skip_bad_rows = flags.skip_bad_rows;
  options.seed = flags.seed;
  options.max_samples = flags.max_samples;
  options.tokenizer_key = tokenizer_key(tokenizer_folder(flags));
  const LengthLimit limit{"max_length", flags.max_length};
  const auto open = [&](const std::string& flag, const std::string& files, bool packs) {
    const RowTokenizer rows(data.tokenizer, row_options(flags, packs));
    options.files = parse_data_files(files);
    auto opened = open_dataset(rows, options);
    if (packs) {
      opened.report.lengths = lengths_in_packs(*opened.dataset, flags);
    }
    OpenedRows result{opened.dataset, "", data_key(options, rows.options())};
    result.truncation =
        print_report(files, opened.report, opened.dataset->size(), "examples", limit, progress);
    data.ends_with_pad |= opened.report.ends_with_pad_count > 0;
    int64_t longest = longest_of(*opened.dataset);
    if (packs) {
      result.rows = pack(opened.dataset, packing_named(flags.packing_strategy), flags.max_length);
      progress.print("  packed into " + std::to_string(result.rows->size()) + " rows of at most " +
                     std::to_string(flags.max_length) + " tokens");
    }
    if (packs && flags.packing_strategy == "wrapped") {
      longest = longest_of(*result.rows);
    }
    if (flags.max_length > 0) {  // kto truncates when it makes batches, packing when it packs
      longest = std::min(longest, flags.max_length);
    }
    data.longest.push_back({"--" + flag + " " + files, longest, limit.flag});
    return result;
  };
  auto train = open("data", flags.data, flags.packing);
  data.train = std::move(train.rows);
  data.train_key = std::move(train.key);
  data.truncation = std::move(train.truncation);
  if (!flags.eval_data.empty()) {
    auto evaluation =
        open("eval_data", flags.eval_data, flags.packing && flags.eval_packing.value_or(true));
    data.evaluation = std::move(evaluation.rows);
    data.evaluation_key = std::move(evaluation.key);
    data.evaluation_truncation = std::move(evaluation.truncation);
  }
  if (flags.show_example) {
    show_first_example(*data.tokenizer, *data.train, progress);
  }
  data.collate = collate_options(flags, *data.tokenizer);
  return data;
}

}  // namespace reprise::app
