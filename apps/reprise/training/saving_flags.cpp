// Flags of logging, evaluation and saving.
#include "reprise/training/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_evaluation(FlagList& list, Objective objective) {
  list.add("eval_steps",
           &Flags::eval_steps,
           "STEPS",
           "Optimizer steps between evaluations; 0: one at the end of each epoch")
      .at_least(0);
  if (!is_online(objective)) {  // where evaluation is a rollout
    list.add("per_device_eval_batch_size",
             &Flags::per_device_eval_batch_size,
             "ROWS",
             "Rows of a batch in evaluation")
        .at_least(1);
  }
  const std::string example = is_online(objective) ? "reward" : "loss";
  list.add("metric_for_best_model",
           &Flags::metric_for_best_model,
           "NAME",
           "Evaluated metric, as " + example + ", by which a checkpoint is the best and kept");
  list.add("greater_is_better",
           &Flags::greater_is_better,
           "BOOL",
           "The best has the highest; unless given, true if its name does not end in loss");
  list.add("load_best_model_at_end",
           &Flags::load_best_model_at_end,
           "BOOL",
           "The model that is saved in the end is the best checkpoint's");
  list.add("early_stopping_patience",
           &Flags::early_stopping_patience,
           "COUNT",
           "Stop after so many evaluations without a new best; 0: never")
      .at_least(0);
}

}  // namespace

void add_saving_flags(FlagList& list, Objective objective) {
  list.begin_group("Evaluation and saving");
  list.add("logging_steps",
           &Flags::logging_steps,
           "STEPS",
           "Optimizer steps between lines on the terminal; metrics.jsonl has all")
      .at_least(1)
      .aliases({"logger.logging_steps"});
  add_evaluation(list, objective);
  list.add("save_steps",
           &Flags::save_steps,
           "STEPS",
           "Optimizer steps between checkpoints; 0: only the model at the end")
      .at_least(0);
  list.add("save_total_limit", &Flags::save_total_limit, "COUNT", "Checkpoints to keep; 0: all")
      .at_least(0);
  list.add("resume_from_checkpoint",
           &Flags::resume_from_checkpoint,
           "DIR",
           "Checkpoint to go on from; auto: the newest in output_dir, if there is one")
      .if_unset("start anew");
  list.add("overwrite_output_dir",
           &Flags::overwrite_output_dir,
           "BOOL",
           "Remove what an earlier run left in output_dir");
}

}  // namespace reprise::app
