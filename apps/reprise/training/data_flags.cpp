// Flags of the data: files, their keys, lengths, and what of a row is trained on.
#include "reprise/training/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

// Of these the file may use other names.
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
      break;  // prompts have keys of their own
  }
  return {};
}

void add_files(FlagList& list) {
  list.add("data",
           &Flags::data,
           "FILE[:WEIGHT]...",
           "JSON Lines or JSON arrays, also .gz; with weights they are mixed")
      .required()
      .joined()
      .aliases({"dataset_name", "train_file", "dataset", "data.dataset"});
  list.add("eval_data", &Flags::eval_data, "FILE...", "Rows to evaluate on")
      .joined()
      .if_unset("no evaluation")
      .aliases({"validation_file", "eval_dataset", "eval.dataset"});
  list.add("cache_dir", &Flags::cache_dir, "DIR", "Where tokenised rows are kept")
      .if_unset("~/.cache/reprise");
}

void add_lengths(FlagList& list, Objective objective) {
  const bool is_sft = is_one_of(objective, {Objective::Sft, Objective::Kd});
  const bool drops = objective == Objective::Rm;
  list.add("max_length",
           &Flags::max_length,
           "TOKENS",
           drops ? "Longer rows are dropped; 0: no limit" : "Longer rows are cut; 0: no limit")
      .at_least(0)
      .aliases({"max_seq_length", "max_len", "data.max_len"});
  if (is_sft || objective == Objective::Dpo) {
    list.add("truncation_mode", &Flags::truncation_mode, "NAME", "What is left of a longer row")
        .one_of({"keep_start", "keep_end"});
  }
  if (is_sft) {
    list.add("drop_too_long", &Flags::drop_too_long, "BOOL", "Drop longer rows instead");
  }
  list.add("pad_to_multiple_of",
           &Flags::pad_to_multiple_of,
           "TOKENS",
           "Pad batches to a multiple of this length")
      .at_least(1);
}

void add_labels_and_packing(FlagList& list) {
  list.add("completion_only_loss",
           &Flags::completion_only_loss,
           "BOOL",
           "Train on completions, not on prompts")
      .if_unset("true for rows of prompt and completion");
  list.add("assistant_only_loss",
           &Flags::assistant_only_loss,
           "BOOL",
           "Of chats, train on the assistant's turns only");
  list.add("trained_turns", &Flags::trained_turns, "NAME", "Which of the assistant's turns")
      .one_of({"all", "last"});
  list.add("packing", &Flags::packing, "BOOL", "Put several rows into one of max_length tokens");
  list.add("packing_strategy",
           &Flags::packing_strategy,
           "NAME",
           "Best fit with long rows cut, or split; or cut wherever a row is full")
      .one_of({"bfd", "bfd_split", "wrapped"});
  list.add("eval_packing", &Flags::eval_packing, "BOOL", "Pack the evaluation data as well")
      .if_unset("as packing");
  list.add("padding_free",
           &Flags::padding_free,
           "BOOL",
           "Join the rows of a batch to a single one instead of padding them");
}

}  // namespace

void add_key_flags(FlagList& list, const std::vector<std::string>& roles) {
  for (const std::string& role : roles) {
    list.add(role + "_key", KeyOfRows{role}, "KEY", "What the rows call \"" + role + "\"")
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
  list.add("max_samples", &Flags::max_samples, "ROWS", "Take the first rows only; -1: all")
      .at_least(-1)
      .aliases({"data.max_samples"});
  list.add("shuffle",
           &Flags::shuffle,
           "BOOL",
           objective == Objective::Kto ? "Always false: kto keeps the order of the file"
                                       : "Another order of the rows in each epoch");
  list.add("skip_bad_rows", &Flags::skip_bad_rows, "BOOL", "Skip and count rows that are wrong");
  list.add("show_example",
           &Flags::show_example,
           "BOOL",
           "Print the first row as text, with [[what is trained on]]");
  if (objective != Objective::Prm) {
    list.add("chat_template", &Flags::chat_template, "FILE", "A Jinja template of chats")
        .if_unset("the tokenizer's")
        .aliases({"chat_template_path"});
    list.add("input_template",
             &Flags::input_template,
             "TEXT",
             "Put around prompts that are plain text: \"User: {}\"")
        .aliases({"data.input_template"});
  }
  if (is_one_of(objective, {Objective::Sft, Objective::Kd})) {
    add_labels_and_packing(list);
  }
  add_key_flags(list, roles_of(objective));
}

}  // namespace reprise::app
