// Flags for logging, evaluation and saving.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_evaluation(FlagList& list, Objective objective) {
  list.add("eval_steps",
           &Flags::eval_steps,
           "STEPS",
           "Optimizer steps between evaluations; 0: evaluate after each epoch")
      .at_least(0);
  if (!is_online(objective)) {  // evaluates by a rollout
    list.add("per_device_eval_batch_size",
             &Flags::per_device_eval_batch_size,
             "ROWS",
             "Rows per batch in evaluation")
        .at_least(1);
  }
  const std::string example = is_online(objective) ? "reward" : "loss";
  list.add("metric_for_best_model",
           &Flags::metric_for_best_model,
           "NAME",
           "Metric of evaluations that decides which checkpoint is the best and is kept, such as " +
               example);
  list.add("greater_is_better",
           &Flags::greater_is_better,
           "BOOL",
           "Whether the best checkpoint has the highest metric; unless given, true if the metric's "
           "name does not end in loss");
  list.add("load_best_model_at_end",
           &Flags::load_best_model_at_end,
           "BOOL",
           "Save the model of the best checkpoint at the end");
  list.add("early_stopping_patience",
           &Flags::early_stopping_patience,
           "COUNT",
           "Stop after this many evaluations without a new best; 0: never")
      .at_least(0);
}

}  // namespace

void add_saving_flags(FlagList& list, Objective objective) {
  list.begin_group("Evaluation and saving");
  list.add("logging_steps",
           &Flags::logging_steps,
           "STEPS",
           "Optimizer steps between log lines; metrics.jsonl has every step")
      .at_least(1)
      .aliases({"logger.logging_steps"});
  add_evaluation(list, objective);
  list.add("save_steps",
           &Flags::save_steps,
           "STEPS",
           "Optimizer steps between checkpoints; 0: save only the final model")
      .at_least(0);
  list.add("save_total_limit",
           &Flags::save_total_limit,
           "COUNT",
           "Number of checkpoints to keep; 0: all")
      .at_least(0);
  list.add("resume_from_checkpoint",
           &Flags::resume_from_checkpoint,
           "DIR",
           "Checkpoint to resume from; auto: the newest in output_dir, if there is one")
      .if_unset("start from the beginning");
  list.add("allow_changes",
           &Flags::allow_changes,
           "BOOL",
           "Resume with another length or learning rate than the checkpoint was made with: "
           "--num_train_epochs, --max_steps, --learning_rate and the schedule's");
  list.add("overwrite_output_dir",
           &Flags::overwrite_output_dir,
           "BOOL",
           "Delete an earlier run in output_dir");
}

}  // namespace reprise::app
