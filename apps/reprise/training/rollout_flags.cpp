// Flags of online training's data: prompts, and how completions are sampled for them.
#include "reprise/training/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_prompts(FlagList& list) {
  list.add("data",
           &Flags::data,
           "FILE[:WEIGHT]...",
           "Prompts: JSON Lines or JSON arrays, also .gz; with weights they are mixed")
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
           "Of a prompt with its template; 0: what the model's positions leave")
      .at_least(0)
      .aliases({"prompt_max_len", "max_prompt_tokens"});
  list.add("long_prompts", &Flags::long_prompts, "NAME", "What becomes of longer ones")
      .one_of({"drop", "keep_end"});
  list.add("max_samples", &Flags::max_samples, "ROWS", "Take the first rows only; -1: all")
      .at_least(-1)
      .aliases({"data.max_samples"});
  list.add("shuffle", &Flags::shuffle, "BOOL", "Another order of the prompts in each epoch")
      .aliases({"shuffle_dataset"});
  list.add("skip_bad_rows", &Flags::skip_bad_rows, "BOOL", "Skip and count rows that are wrong");
  list.add(
      "show_example", &Flags::show_example, "BOOL", "Print the first prompt as it is answered");
  list.add("chat_template", &Flags::chat_template, "FILE", "A Jinja template of chats")
      .if_unset("the tokenizer's")
      .aliases({"chat_template_path"});
  list.add("input_template",
           &Flags::input_template,
           "TEXT",
           "Put around prompts that are plain text: \"User: {}\"")
      .aliases({"data.input_template"});
  add_key_flags(list, {"prompt", "messages", "input", "question", "tools"});
}

void add_sampling(FlagList& list) {
  list.add("max_completion_length",
           &Flags::max_completion_length,
           "TOKENS",
           "Completions end here if the policy does not end them")
      .at_least(1)
      .aliases({"max_new_tokens", "response_length", "generate_max_len", "rollout.max_new_tokens"});
  list.add("num_generations",
           &Flags::num_generations,
           "COUNT",
           "Completions of each prompt, which are a group")
      .at_least(1)
      .aliases({"n_samples_per_prompt", "rollout.n_samples_per_prompt"});
  list.add("temperature", &Flags::temperature, "NUMBER", "Divides the logits, here and in the loss")
      .above(0)
      .aliases({"rollout.temperature"});
  list.add("top_p", &Flags::top_p, "SHARE", "Sample from the fewest tokens with this probability")
      .between(0, 1)
      .aliases({"rollout.top_p"});
  list.add("top_k", &Flags::top_k, "COUNT", "Sample from so many tokens; 0: all").at_least(0);
  list.add("min_p",
           &Flags::min_p,
           "SHARE",
           "Sample from tokens at least so likely, relative to the likeliest; 0: all")
      .between(0, 1);
  list.add("repetition_penalty",
           &Flags::repetition_penalty,
           "NUMBER",
           "Above 1: tokens that occurred become less likely")
      .above(0);
  list.add("stop_strings", &Flags::stop_strings, "TEXT...", "Completions also end with these")
      .many();
  list.add("rollout_batch_size",
           &Flags::rollout_batch_size,
           "COUNT",
           "Completions that are generated at the same time, at most; a matter of memory")
      .at_least(1)
      .aliases({"micro_rollout_batch_size"});
}

void add_learning(FlagList& list) {
  list.add("steps_per_generation",
           &Flags::steps_per_generation,
           "COUNT",
           "Micro-batches that are generated at once; 0: those of an optimizer step")
      .at_least(0);
  list.add("num_iterations",
           &Flags::num_iterations,
           "COUNT",
           "How often what was generated is learned from")
      .at_least(1)
      .aliases({"max_epochs", "train.max_epochs", "ppo_epochs", "num_ppo_epochs"});
  list.add("samples_steps",
           &Flags::samples_steps,
           "STEPS",
           "Optimizer steps between samples that are kept for the report; 0: none")
      .at_least(0);
  list.add("samples_shown", &Flags::samples_shown, "COUNT", "Completions that are kept then")
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
