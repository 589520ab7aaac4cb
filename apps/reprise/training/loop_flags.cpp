// Flags of the training loop and of gradient checkpointing: the same for every objective, but for
// names that mean something else in programs of online training.
#include "reprise/training/flag_spec.h"

#include <string>
#include <vector>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;
using Names = std::vector<std::string>;

// grpo trains one model, so that its role need not be named but may be.
Names with_actor(Objective objective, Names names, const Names& of_actor) {
  if (objective == Objective::Grpo) {
    names.insert(names.end(), of_actor.begin(), of_actor.end());
  }
  return names;
}

void add_amounts(FlagList& list, Objective objective) {
  list.add("output_dir", &Flags::output_dir, "DIR", "Where the model and all about the run goes")
      .required()
      .aliases({"ckpt.output_dir"});
  list.add("per_device_train_batch_size",
           &Flags::per_device_train_batch_size,
           "ROWS",
           is_online(objective) ? "Completions of a micro-batch" : "Rows of a micro-batch")
      .at_least(1)
      .aliases({"micro_train_batch_size", "train.micro_batch_size"});
  list.add("gradient_accumulation_steps",
           &Flags::gradient_accumulation_steps,
           "COUNT",
           "Micro-batches of an optimizer step")
      .at_least(1)
      .aliases({"accumulation_steps"});
  list.add("num_train_epochs", &Flags::num_train_epochs, "EPOCHS", "Passes over the data")
      .above(0)
      .aliases(is_online(objective) ? Names{"num_episodes", "train.num_episodes"}
                                    : Names{"max_epochs", "train.max_epochs"});
  list.add("max_steps", &Flags::max_steps, "STEPS", "Optimizer steps, instead of epochs; -1: unset")
      .at_least(-1);
  list.add("seed", &Flags::seed, "NUMBER", "Of the data's order, dropout and new weights")
      .aliases({"train.seed"});
}

void add_schedule(FlagList& list) {
  list.add("learning_rate", &Flags::learning_rate, "NUMBER", "The highest learning rate")
      .above(0)
      .aliases({"lr", "adam.lr"});
  list.add("lr_scheduler_type", &Flags::lr_scheduler_type, "NAME", "Course of the learning rate")
      .one_of({"linear",
               "cosine",
               "cosine_with_min_lr",
               "warmup_stable_decay",
               "wsd",
               "constant",
               "constant_with_warmup"})
      .aliases({"lr_scheduler"});
  list.add("warmup_steps",
           &Flags::warmup_steps,
           "STEPS",
           "Steps to reach the learning rate; below 1: their share of all")
      .at_least(0);
  list.add("warmup_ratio", &Flags::warmup_ratio, "SHARE", "The same, as a share of all steps")
      .between(0, 1)
      .aliases({"lr_warmup_ratio"});
  list.add("min_lr_ratio",
           &Flags::min_lr_ratio,
           "SHARE",
           "Least learning rate, as a share: cosine_with_min_lr and warmup_stable_decay")
      .between(0, 1)
      .if_unset("0.1 of cosine_with_min_lr, 0 of warmup_stable_decay");
  list.add("lr_decay_steps",
           &Flags::lr_decay_steps,
           "STEPS",
           "Last steps, in which warmup_stable_decay decays")
      .at_least(0);
}

void add_optimizer(FlagList& list, Objective objective) {
  list.add("optim", &Flags::optim, "NAME", "Both adamw are the same, fused where LibTorch can")
      .one_of({"adamw_torch_fused", "adamw_torch", "rmsprop", "sgd"});
  list.add("adam_beta1", &Flags::adam_beta1, "SHARE", "Decay of AdamW's mean of gradients")
      .between(0, 1);
  list.add("adam_beta2", &Flags::adam_beta2, "SHARE", "Decay of AdamW's mean of squares")
      .between(0, 1);
  list.add("adam_epsilon", &Flags::adam_epsilon, "NUMBER", "Added to AdamW's denominator")
      .at_least(0)
      .aliases({"adam.eps"});
  list.add("momentum", &Flags::momentum, "SHARE", "Of rmsprop and sgd").between(0, 1);
  list.add("weight_decay", &Flags::weight_decay, "NUMBER", "Decoupled; not of biases and norms")
      .at_least(0)
      .aliases({"adam.weight_decay"});
  list.add("max_grad_norm", &Flags::max_grad_norm, "NORM", "Gradients are scaled to it; 0: never")
      .at_least(0)
      .aliases({"max_norm", "grad_clip"});
  list.add("ema_decay",
           &Flags::ema_decay,
           "SHARE",
           "Also save a moving average of the weights, with this decay a step; 0: none")
      .between(0, 1);
  if (is_online(objective)) {
    list.add("offload_optimizer",
             &Flags::offload_optimizer,
             "BOOL",
             "Keep the optimizer's state on the CPU while completions are made and judged");
  }
}

void add_checkpointing(FlagList& list, Objective objective) {
  list.begin_group("Gradient checkpointing");
  list.add("gradient_checkpointing",
           &Flags::gradient_checkpointing,
           "BOOL",
           "Compute activations of the model's blocks again in backward instead of keeping them")
      .aliases(with_actor(objective,
                          {"activation_checkpointing",
                           "grad_checkpoint",
                           "use_grad_checkpoint",
                           "model.gradient_checkpointing_enable"},
                          {"actor.gradient_checkpointing", "actor.gradient_checkpointing_enable"}));
  list.add("gradient_checkpointing_use_reentrant",
           &Flags::gradient_checkpointing_use_reentrant,
           "BOOL",
           "PyTorch's older variant, with its limits")
      .aliases(with_actor(objective,
                          {"model.gradient_checkpointing_reentrant"},
                          {"actor.gradient_checkpointing_use_reentrant",
                           "actor.gradient_checkpointing_reentrant"}));
  list.add("gradient_checkpointing_ratio",
           &Flags::gradient_checkpointing_ratio,
           "SHARE",
           "Only the first of the blocks; 0: unset, all of them")
      .between(0, 1)
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_ratio"}));
  list.add("gradient_checkpointing_layers",
           &Flags::gradient_checkpointing_layers,
           "LIST",
           "Only these blocks: 0-7,12")
      .joined()
      .if_unset("all")
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_layers"}));
  list.add("gradient_checkpointing_policy",
           &Flags::gradient_checkpointing_policy,
           "NAME",
           "What of a block is kept all the same: nothing, results of attention, or every second "
           "matrix product")
      .one_of({"full", "attention", "matmuls"})
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_policy"}));
  list.add("gradient_checkpointing_kwargs",
           &Flags::gradient_checkpointing_kwargs,
           "JSON",
           "The same and more as an object: use_reentrant, every_n_layers, ratio, layers, policy, "
           "selective, preserve_rng_state, determinism_check, early_stop")
      .json_object()
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_kwargs"}));
}

}  // namespace

void add_loop_flags(FlagList& list, Objective objective) {
  list.begin_group("Training");
  add_amounts(list, objective);
  add_schedule(list);
  add_optimizer(list, objective);
  add_checkpointing(list, objective);
  add_memory_flags(list);
  add_parallel_flags(list);
}

}  // namespace reprise::app
