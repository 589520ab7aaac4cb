// Flags of grpo and ppo for prompts and for sampling completions.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_prompts(FlagList& list) {
  list.add("data",
           &Flags::data,
           "FILE[:WEIGHT]...",
           "Prompts: JSON Lines or JSON arrays, also .gz; with weights the files are mixed")
      .required()
      .joined()
      .aliases({"dataset_name",
                "train_file",
                "dataset",
                "data.dataset",
                "prompt_data",
                "prompt_dataset",
                "data.prompt_dataset"});
  list.add("eval_data", &Flags::eval_data, "FILE...", "Prompts to evaluate on")
      .joined()
      .if_unset("no evaluation")
      .aliases({"validation_file", "eval_dataset", "eval.dataset"});
  list.add("max_prompt_length",
           &Flags::max_prompt_length,
           "TOKENS",
           "Longest prompt, including its template; 0: what --max_completion_length leaves of the "
           "model's positions")
      .at_least(0)
      .aliases({"prompt_max_len", "max_prompt_tokens"});
  list.add("long_prompts",
           &Flags::long_prompts,
           "NAME",
           "What to do with longer prompts: drop them, or keep their end")
      .one_of({"drop", "keep_end"});
  list.add("max_samples", &Flags::max_samples, "ROWS", "Use only the first rows; -1: all")
      .at_least(-1)
      .aliases({"data.max_samples"});
  list.add("shuffle", &Flags::shuffle, "BOOL", "Shuffle the prompts in each epoch")
      .aliases({"shuffle_dataset"});
  list.add("skip_bad_rows",
           &Flags::skip_bad_rows,
           "BOOL",
           "Skip invalid rows and report how many there are");
  list.add(
      "show_example", &Flags::show_example, "BOOL", "Print the first prompt as the model sees it");
  list.add("chat_template", &Flags::chat_template, "FILE", "File with a Jinja chat template")
      .if_unset("that of the tokenizer")
      .aliases({"chat_template_path"});
  list.add("input_template",
           &Flags::input_template,
           "TEXT",
           "Template for prompts that are plain text, such as \"User: {}\"")
      .aliases({"data.input_template"});
  add_key_flags(list, {"prompt", "messages", "input", "question", "tools"});
}

void add_sampling(FlagList& list) {
  list.add("max_completion_length", &Flags::max_completion_length, "TOKENS", "Longest completion")
      .at_least(1)
      .aliases({"max_new_tokens", "response_length", "generate_max_len", "rollout.max_new_tokens"});
  list.add("num_generations",
           &Flags::num_generations,
           "COUNT",
           "Completions per prompt; together they are a group")
      .between(1, kMostOfABatch)
      .aliases({"n_samples_per_prompt", "rollout.n_samples_per_prompt"});
  list.add("temperature",
           &Flags::temperature,
           "NUMBER",
           "Sampling temperature, also applied in the loss")
      .above(0)
      .aliases({"rollout.temperature"});
  list.add("top_p",
           &Flags::top_p,
           "FRACTION",
           "Sample from the smallest set of tokens with this total probability")
      .between(0, 1)
      .aliases({"rollout.top_p"});
  list.add("top_k", &Flags::top_k, "COUNT", "Sample from the k most likely tokens; 0: all")
      .at_least(0);
  list.add("min_p",
           &Flags::min_p,
           "FRACTION",
           "Sample from tokens with at least this probability, relative to the most likely one; 0: "
           "all")
      .between(0, 1);
  list.add("repetition_penalty",
           &Flags::repetition_penalty,
           "NUMBER",
           "Above 1: tokens that have occurred become less likely")
      .above(0);
  list.add("stop_strings", &Flags::stop_strings, "TEXT...", "Completions also end at these strings")
      .many();
  list.add("rollout_batch_size",
           &Flags::rollout_batch_size,
           "COUNT",
           "Largest number of completions generated at the same time; limited by memory")
      .between(1, kMostOfABatch)
      .aliases({"micro_rollout_batch_size"});
}

void add_learning(FlagList& list) {
  list.add("steps_per_generation",
           &Flags::steps_per_generation,
           "COUNT",
           "Micro-batches per generation; 0: those of one optimizer step")
      .between(0, kMostOfABatch);
  list.add("num_iterations",
           &Flags::num_iterations,
           "COUNT",
           "Number of passes over each generation")
      .between(1, kMostOfABatch)
      .aliases({"max_epochs", "train.max_epochs", "ppo_epochs", "num_ppo_epochs"});
  list.add("samples_steps",
           &Flags::samples_steps,
           "STEPS",
           "Optimizer steps between completions that are saved for the report; 0: save none")
      .at_least(0);
  list.add("samples_shown", &Flags::samples_shown, "COUNT", "Number of completions saved each time")
      .at_least(1)
      .aliases({"num_completions_to_print"});
}

}  // namespace

void add_prompt_flags(FlagList& list) {
  list.begin_group("Data");
  add_prompts(list);
}

void add_rollout_flags(FlagList& list) {
  list.begin_group("Rollout");
  add_sampling(list);
  add_learning(list);
}

}  // namespace reprise::app
