// Flags for the data: files, column names, lengths, and which tokens of a row are trained on.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

// Columns that may have another name in the data.
std::vector<std::string> roles_of(Objective objective) {
  switch (objective) {
    case Objective::Sft:
    case Objective::Kd:
      return {"prompt", "completion", "messages", "text", "input", "output", "tools"};
    case Objective::Dpo:
      return {"prompt", "chosen", "rejected", "tools"};
    case Objective::Rm:
      return {"prompt", "chosen", "rejected", "margin", "tools"};
    case Objective::Kto:
      return {"prompt", "completion", "label", "input", "output", "chosen", "rejected", "tools"};
    case Objective::Prm:
      return {"prompt", "completions", "labels", "input", "label"};
    case Objective::Grpo:
    case Objective::Ppo:
      break;  // add_prompt_flags() has their columns
  }
  return {};
}

void add_files(FlagList& list) {
  list.add("data",
           &Flags::data,
           "FILE[:WEIGHT]...",
           "JSON Lines or JSON arrays, also .gz; with weights the files are mixed")
      .required()
      .joined()
      .aliases({"dataset_name", "train_file", "dataset", "data.dataset"});
  list.add("eval_data", &Flags::eval_data, "FILE...", "Rows to evaluate on")
      .joined()
      .if_unset("no evaluation")
      .aliases({"validation_file", "eval_dataset", "eval.dataset"});
  list.add("cache_dir", &Flags::cache_dir, "DIR", "Cache for tokenised rows")
      .if_unset("~/.cache/reprise");
}

void add_lengths(FlagList& list, Objective objective) {
  const bool is_sft = is_one_of(objective, {Objective::Sft, Objective::Kd});
  const bool drops = objective == Objective::Rm;
  list.add(
          "max_length",
          &Flags::max_length,
          "TOKENS",
          drops ? "Longer rows are dropped; 0: no limit" : "Longer rows are truncated; 0: no limit")
      .at_least(0)
      .aliases({"max_seq_length", "max_len", "data.max_len"});
  if (is_sft || objective == Objective::Dpo) {
    list.add("truncation_mode",
             &Flags::truncation_mode,
             "NAME",
             "Which part of a longer row is kept")
        .one_of({"keep_start", "keep_end"});
  }
  if (is_sft) {
    list.add("drop_too_long",
             &Flags::drop_too_long,
             "BOOL",
             "Drop longer rows instead of truncating them");
  }
  list.add("pad_to_multiple_of",
           &Flags::pad_to_multiple_of,
           "TOKENS",
           "Pad rows to a multiple of this length")
      .at_least(1);
}

void add_labels_and_packing(FlagList& list) {
  list.add("completion_only_loss",
           &Flags::completion_only_loss,
           "BOOL",
           "Compute the loss on completions only, not on prompts")
      .if_unset("true for rows with a prompt and a completion");
  list.add("assistant_only_loss",
           &Flags::assistant_only_loss,
           "BOOL",
           "In chats, compute the loss on the assistant's turns only");
  list.add("trained_turns",
           &Flags::trained_turns,
           "NAME",
           "Which turns of the assistant count with --assistant_only_loss")
      .one_of({"all", "last"});
  list.add("packing", &Flags::packing, "BOOL", "Pack several rows into one of max_length tokens");
  list.add("packing_strategy",
           &Flags::packing_strategy,
           "NAME",
           "bfd: best fit, longer rows are truncated; bfd_split: best fit, longer rows are split; "
           "wrapped: concatenate everything and cut at max_length")
      .one_of({"bfd", "bfd_split", "wrapped"});
  list.add("eval_packing", &Flags::eval_packing, "BOOL", "Also pack the evaluation data")
      .if_unset("the value of --packing");
  list.add("padding_free",
           &Flags::padding_free,
           "BOOL",
           "Concatenate the rows of a batch into one instead of padding them");
}

}  // namespace

void add_key_flags(FlagList& list, const std::vector<std::string>& roles) {
  for (const std::string& role : roles) {
    list.add(role + "_key",
             KeyOfRows{role},
             "KEY",
             "Name of the column \"" + role + "\" in the data")
        .aliases({"data." + role + "_key"});
  }
}

void add_data_flags(FlagList& list, Objective objective) {
  if (is_online(objective)) {
    return add_prompt_flags(list);
  }
  list.begin_group("Data");
  add_files(list);
  add_lengths(list, objective);
  list.add("max_samples", &Flags::max_samples, "ROWS", "Use only the first rows; -1: all")
      .at_least(-1)
      .aliases({"data.max_samples"});
  list.add("shuffle",
           &Flags::shuffle,
           "BOOL",
           objective == Objective::Kto
               ? "Always false: kto compares neighbouring rows, so the order of the file is kept"
               : "Shuffle the rows in each epoch");
  list.add("skip_bad_rows",
           &Flags::skip_bad_rows,
           "BOOL",
           "Skip invalid rows and report how many there are");
  list.add("show_example",
           &Flags::show_example,
           "BOOL",
           "Print the first row as text, with [[the tokens that are trained on]] in brackets");
  if (objective != Objective::Prm) {
    list.add("chat_template", &Flags::chat_template, "FILE", "File with a Jinja chat template")
        .if_unset("that of the tokenizer")
        .aliases({"chat_template_path"});
    list.add("input_template",
             &Flags::input_template,
             "TEXT",
             "Template for prompts that are plain text, such as \"User: {}\"")
        .aliases({"data.input_template"});
  }
  if (is_one_of(objective, {Objective::Sft, Objective::Kd})) {
    add_labels_and_packing(list);
  }
  add_key_flags(list, roles_of(objective));
}

}  // namespace reprise::app
