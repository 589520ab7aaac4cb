// Flags for the training loop and gradient checkpointing. They are the same for every objective,
// except for aliases that mean something else in online training.
#include "reprise/training/flags/flag_spec.h"

#include <string>
#include <vector>

#include <reprise/optim/optimizer.h>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;
using Names = std::vector<std::string>;

// grpo trains only the actor, so naming that role is optional.
Names with_actor(Objective objective, Names names, const Names& of_actor) {
  if (objective == Objective::Grpo) {
    names.insert(names.end(), of_actor.begin(), of_actor.end());
  }
  return names;
}

void add_amounts(FlagList& list, Objective objective) {
  list.add("output_dir",
           &Flags::output_dir,
           "DIR",
           "Folder for the model, checkpoints, metrics and the report")
      .required()
      .aliases({"ckpt.output_dir"});
  list.add("per_device_train_batch_size",
           &Flags::per_device_train_batch_size,
           "ROWS",
           is_online(objective) ? "Completions per micro-batch" : "Rows per micro-batch")
      .between(1, kMostOfABatch)
      .aliases({"micro_train_batch_size", "train.micro_batch_size"});
  list.add("gradient_accumulation_steps",
           &Flags::gradient_accumulation_steps,
           "COUNT",
           "Micro-batches per optimizer step")
      .between(1, kMostOfABatch)
      .aliases({"accumulation_steps"});
  list.add("num_train_epochs", &Flags::num_train_epochs, "EPOCHS", "Number of passes over the data")
      .above(0)
      .at_most(1e6)
      .aliases(is_online(objective) ? Names{"num_episodes", "train.num_episodes"}
                                    : Names{"max_epochs", "train.max_epochs"});
  list.add("max_steps",
           &Flags::max_steps,
           "STEPS",
           "Number of optimizer steps, instead of --num_train_epochs; -1: unset")
      .at_least(-1);
  list.add("seed", &Flags::seed, "NUMBER", "Random seed of data order, dropout and new weights")
      .aliases({"train.seed"});
}

void add_schedule(FlagList& list) {
  list.add("learning_rate", &Flags::learning_rate, "NUMBER", "Peak learning rate")
      .above(0)
      .aliases({"lr", "adam.lr"});
  list.add("lr_scheduler_type", &Flags::lr_scheduler_type, "NAME", "Learning rate schedule")
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
           "Warmup steps; below 1: a fraction of all steps")
      .at_least(0);
  list.add("warmup_ratio", &Flags::warmup_ratio, "FRACTION", "Warmup as a fraction of all steps")
      .between(0, 1)
      .aliases({"lr_warmup_ratio"});
  list.add("min_lr_ratio",
           &Flags::min_lr_ratio,
           "FRACTION",
           "cosine_with_min_lr, warmup_stable_decay: lowest learning rate, as a fraction of the "
           "peak")
      .between(0, 1)
      .if_unset("0.1 for cosine_with_min_lr, 0 for warmup_stable_decay");
  list.add("lr_decay_steps",
           &Flags::lr_decay_steps,
           "STEPS",
           "warmup_stable_decay: number of steps at the end in which the learning rate decays")
      .at_least(0);
}

void add_optimizer(FlagList& list) {
  list.add("optim",
           &Flags::optim,
           "NAME",
           "Optimizer; the first three names mean the same, with fused kernels where LibTorch has "
           "them")
      .one_of(optimizer_names())
      .instead_of = optimizer_instead_of;
  list.add("adam_beta1",
           &Flags::adam_beta1,
           "FRACTION",
           "AdamW: decay of the mean of gradients; lion: share of it in the update")
      .between(0, 1);
  list.add("adam_beta2",
           &Flags::adam_beta2,
           "FRACTION",
           "AdamW: decay of the mean of squared gradients; lion: of the mean of gradients")
      .between(0, 1);
  list.add("adam_epsilon", &Flags::adam_epsilon, "NUMBER", "AdamW: added to the denominator")
      .at_least(0)
      .aliases({"adam.eps"});
  list.add("momentum",
           &Flags::momentum,
           "FRACTION",
           "rmsprop, sgd, muon: momentum; 0: none, for muon 0.95")
      .between(0, 1);
  list.add("muon_adjust_lr_fn",
           &Flags::muon_adjust_lr_fn,
           "NAME",
           "muon: how the learning rate is scaled for a matrix, as torch.optim.Muon does it; "
           "match_rms_adamw takes the rates of AdamW")
      .one_of({"match_rms_adamw", "original", "spectral_unclamped"});
  list.add("scale_parameter",
           &Flags::scale_parameter,
           "BOOL",
           "adafactor: scale the learning rate by the root mean square of each parameter");
  list.add("relative_step",
           &Flags::relative_step,
           "BOOL",
           "adafactor: take its own learning rate, which falls with the root of the steps");
  list.add("warmup_init",
           &Flags::warmup_init,
           "BOOL",
           "adafactor: with --relative_step, begin with small steps");
  list.add("weight_decay",
           &Flags::weight_decay,
           "NUMBER",
           "Decoupled weight decay; not applied to biases and norms")
      .at_least(0)
      .aliases({"adam.weight_decay"});
  list.add("max_grad_norm",
           &Flags::max_grad_norm,
           "NORM",
           "Clip gradients to this norm; 0: no clipping")
      .at_least(0)
      .aliases({"max_norm", "grad_clip"});
  list.add("ema_decay",
           &Flags::ema_decay,
           "FRACTION",
           "Also save an exponential moving average of the weights, with this decay per step; 0: "
           "none")
      .between(0, 1);
}

void add_checkpointing(FlagList& list, Objective objective) {
  list.begin_group("Gradient checkpointing");
  list.add("gradient_checkpointing",
           &Flags::gradient_checkpointing,
           "BOOL",
           "Recompute the activations of transformer blocks in backward instead of storing them")
      .aliases(with_actor(objective,
                          {"activation_checkpointing",
                           "grad_checkpoint",
                           "use_grad_checkpoint",
                           "model.gradient_checkpointing_enable"},
                          {"actor.gradient_checkpointing", "actor.gradient_checkpointing_enable"}));
  list.add("gradient_checkpointing_use_reentrant",
           &Flags::gradient_checkpointing_use_reentrant,
           "BOOL",
           "Use PyTorch's older reentrant variant, with its limits")
      .aliases(with_actor(objective,
                          {"model.gradient_checkpointing_reentrant"},
                          {"actor.gradient_checkpointing_use_reentrant",
                           "actor.gradient_checkpointing_reentrant"}));
  list.add("gradient_checkpointing_ratio",
           &Flags::gradient_checkpointing_ratio,
           "FRACTION",
           "Checkpoint only this fraction of the blocks, counted from the first; 0: unset, all of "
           "them")
      .between(0, 1)
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_ratio"}));
  list.add("gradient_checkpointing_layers",
           &Flags::gradient_checkpointing_layers,
           "LIST",
           "Checkpoint only these blocks, such as 0-7,12")
      .joined()
      .if_unset("all")
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_layers"}));
  list.add("gradient_checkpointing_policy",
           &Flags::gradient_checkpointing_policy,
           "NAME",
           "What a checkpointed block still stores: full: nothing; attention: the results of "
           "attention; matmuls: every second matrix product")
      .one_of({"full", "attention", "matmuls"})
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_policy"}));
  list.add("gradient_checkpointing_kwargs",
           &Flags::gradient_checkpointing_kwargs,
           "JSON",
           "These settings and more as a JSON object: use_reentrant, every_n_layers, ratio, "
           "layers, policy, selective, preserve_rng_state, determinism_check, early_stop")
      .json_object()
      .aliases(with_actor(objective, {}, {"actor.gradient_checkpointing_kwargs"}));
}

}  // namespace

void add_loop_flags(FlagList& list, Objective objective) {
  list.begin_group("Training");
  add_amounts(list, objective);
  add_schedule(list);
  add_optimizer(list);
  add_checkpointing(list, objective);
  add_memory_flags(list);
  add_parallel_flags(list);
}

}  // namespace reprise::app
