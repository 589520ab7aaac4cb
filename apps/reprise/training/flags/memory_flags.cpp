// Flags for memory budgets, which combinations are allowed, and the limits they set.
#include "reprise/training/flags/memory_flags.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/flag_table.h"

#include <reprise/optim/optimizer.h>

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void refuse_own_checkpointing(const TrainingFlags& flags) {
  for (const std::string role : {"", "actor.", "critic."}) {
    const std::string name = role + "gradient_checkpointing";
    for (const char* setting : {"_use_reentrant", "_kwargs", "_ratio", "_layers", "_policy"}) {
      refuse(flags, {(name + setting).c_str()}, "within a memory budget, which decides that");
    }
    if (flags.given.contains(name) && find_flag(flags.objective, name) != nullptr) {
      TORCH_CHECK(value_of(flags, *find_flag(flags.objective, name)) == true,
                  "--",
                  name,
                  " false contradicts a memory budget, which checkpoints what it must. Leave one "
                  "of them out");
    }
  }
}

}  // namespace

void add_memory_flags(FlagList& list) {
  list.begin_group("Memory budget");
  list.add("activation_memory_budget",
           &Flags::activation_memory_budget,
           "AMOUNT",
           "Largest size of the activations: 6GiB, 500MB, a fraction of their size without "
           "checkpointing (0.5), min, max, or auto (what the device has left). Plans for each "
           "operator of each block whether its result is stored or recomputed, so that the step is "
           "as fast as this memory allows");
  list.add(
      "memory_budget",
      &Flags::memory_budget,
      "AMOUNT",
      "The same for everything on the device: weights, gradients, optimizer state and activations");
  list.add("host_memory_budget",
           &Flags::host_memory_budget,
           "BYTES",
           "Most CPU memory for what is offloaded from a GPU, such as 64GiB: activations of plans, "
           "gradients, optimizer state; default: what is free less a tenth of all, and no "
           "activations");
  list.add("allow_lossy",
           &Flags::allow_lossy,
           "BOOL",
           "Allow plans with lossy compression of activations, which changes results");
  list.add("memory_plan",
           &Flags::memory_plan,
           "FILE",
           "Use the plans in the memory_plan.json of an earlier run instead of planning");
  list.add("auto_batch",
           &Flags::auto_batch,
           "BOOL",
           "Choose the micro-batch size that is fastest within the budget, for the same rows per "
           "optimizer step");
  list.begin_group("Offload to CPU memory");
  list.add("optimizer_offload",
           &Flags::optimizer_offload,
           "BOOL",
           "Keep the optimizer state and float32 copies of weights in CPU memory. The GPU computes "
           "the update on a piece at a time: the same weights to the last bit")
      .aliases({"offload_optimizer", "adam_offload"});
  list.add("gradient_offload",
           &Flags::gradient_offload,
           "BOOL",
           "Keep gradients in CPU memory: each leaves the GPU as soon as backward has computed it, "
           "and comes back to be added to, and for the update");
}

bool has_memory_budget(const TrainingFlags& flags) {
  return !flags.activation_memory_budget.empty() || !flags.memory_budget.empty() ||
         !flags.memory_plan.empty();
}

MemoryLimits memory_limits(const TrainingFlags& flags) {
  MemoryLimits limits;
  if (!flags.activation_memory_budget.empty()) {
    limits.activations = parse_budget("--activation_memory_budget", flags.activation_memory_budget);
  }
  if (!flags.memory_budget.empty()) {
    limits.total = parse_budget("--memory_budget", flags.memory_budget);
  }
  if (!flags.host_memory_budget.empty()) {
    limits.host_bytes = parse_bytes("--host_memory_budget", flags.host_memory_budget);
  }
  limits.allow_lossy = flags.allow_lossy;
  limits.may_offload_state = !flags.given.contains("optimizer_offload");
  limits.may_offload_gradients = !flags.given.contains("gradient_offload");
  limits.plan_file = flags.memory_plan;
  return limits;
}

void check_memory_effects(const TrainingFlags& flags) {
  const auto limits = memory_limits(flags);
  if (flags.device == "cpu" && !can_offload(c10::kCPU)) {
    refuse(flags,
           {"optimizer_offload", "gradient_offload"},
           "with --device cpu: everything is already in CPU memory");
  }
  TORCH_CHECK(!limits.activations || !limits.total,
              "--activation_memory_budget and --memory_budget: give one of them");
  if (!limits.is_set()) {
    refuse(flags,
           {"allow_lossy", "auto_batch"},
           "without --activation_memory_budget or --memory_budget");
    if (!flags.optimizer_offload && !flags.gradient_offload) {
      refuse(flags,
             {"host_memory_budget"},
             "without a memory budget, --optimizer_offload or --gradient_offload");
    }
    return;
  }
  refuse_own_checkpointing(flags);
  TORCH_CHECK(!flags.auto_batch || !is_online(flags.objective),
              "--auto_batch: how long completions become is not known beforehand, so sizes of ",
              "micro-batches cannot be tried. Give --per_device_train_batch_size");
  if (flags.device == "cpu" && !flags.optimizer_offload && !flags.gradient_offload) {
    refuse(
        flags, {"host_memory_budget"}, "with --device cpu: activations are already in CPU memory");
  }
  if (!flags.memory_plan.empty()) {
    refuse(flags,
           {"activation_memory_budget", "memory_budget", "host_memory_budget"},
           "with --memory_plan, which brings its own");
    refuse(flags, {"auto_batch"}, "with --memory_plan, which is for micro-batches of one size");
  }
}

}  // namespace reprise::app
