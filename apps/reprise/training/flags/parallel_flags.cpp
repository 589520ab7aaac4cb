// Flags for training in several processes, which combinations are allowed, and which flags of other
// programs have no counterpart.
#include "reprise/training/flags/parallel_flags.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/flag_spec.h"

#include <reprise/io/dtype.h>
#include <reprise/optim/optimizer.h>

#include <c10/util/Exception.h>

#include <map>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

constexpr const char* kWhatThereIs =
    ". Data parallelism is available, with sharding by --parallel zero2 or fsdp";

// Unsupported kinds of parallelism, by the names of flags and values in other programs.
const std::map<std::string, std::string>& missing_kinds() {
  static const auto all = [] {
    std::map<std::string, std::string> kinds;
    const std::pair<const char*, const char*> shorts[] = {{"tp", "tensor"},
                                                          {"pp", "pipeline"},
                                                          {"sp", "sequence"},
                                                          {"cp", "context"},
                                                          {"ep", "expert"}};
    for (const auto& [brief, name] : shorts) {
      const std::string kind = std::string(name) + " parallelism";
      for (const std::string& each : {std::string(brief), std::string(name)}) {
        for (const char* end : {"", "_size", "_parallel", "_parallel_size", "_parallelism"}) {
          kinds[each + end] = kind;
        }
      }
      kinds[std::string(name) + "_model_parallel_size"] = kind;
    }
    kinds["ring_attn_size"] = kinds["ulysses_sequence_parallel_size"] = "sequence parallelism";
    kinds["3d"] = "parallelism in three dimensions";
    kinds["hybrid"] = kinds["hsdp"] = kinds["hybrid_shard"] = "sharding within each machine only";
    return kinds;
  }();
  return all;
}

// Names of the supported strategies in other programs.
const std::map<std::string, std::string>& other_names() {
  static const std::map<std::string, std::string> names = {
      {"dp", "ddp"},
      {"zero1", "zero2"},
      {"zero3", "fsdp"},
      {"fsdp1", "fsdp"},
      {"fsdp2", "fsdp"},
      {"full_shard", "fsdp"},
      {"shard_grad_op", "zero2"},
  };
  return names;
}

void check_strategy_name(const std::string& name) {
  const auto missing = missing_kinds().find(name);
  TORCH_CHECK(missing == missing_kinds().end(),
              "--parallel ",
              name,
              ": there is no ",
              missing->second,
              kWhatThereIs);
  const auto other = other_names().find(name);
  TORCH_CHECK(other == other_names().end(),
              "--parallel ",
              name,
              ": ",
              name,
              name == "zero1" ? " is not available; the closest is " : " is called ",
              other->second,
              name == "zero1" ? "" : " here");
  const bool is_known = name == "ddp" || name == "zero2" || name == "fsdp";
  TORCH_CHECK(is_known, "--parallel: expected ddp, zero2 or fsdp, found \"", name, "\"");
}

void check_fsdp(const TrainingFlags& flags) {
  refuse(flags,
         {"offload_reference", "offload_reward", "teacher_offload"},
         "with --parallel fsdp: each process stores only its shard of every model. "
         "--fsdp_cpu_offload keeps the shards in CPU memory");
  if (flags.fsdp_cpu_offload) {
    refuse(flags,
           {"optimizer_offload", "gradient_offload"},
           "with --fsdp_cpu_offload: they are always in CPU memory");
  }
  if (flags.device == "cpu") {
    refuse(flags, {"fsdp_cpu_offload"}, "with --device cpu: everything is already in CPU memory");
  }
}

}  // namespace

void add_parallel_flags(FlagList& list) {
  list.begin_group("Several processes (reprise launch)");
  list.add("parallel",
           &Flags::parallel,
           "NAME",
           "What each process stores: ddp: the whole model; zero2: its shard of gradients and "
           "optimizer state; fsdp: its shard of the parameters too")
      .if_unset("ddp");
  list.add("reduce_dtype",
           &Flags::reduce_dtype,
           "NAME",
           "Data type in which gradients are summed over processes; 16 bits halve the traffic and "
           "are less exact")
      .one_of({"float32", "bfloat16", "float16"})
      .if_unset("float32");
  list.add("fsdp_cpu_offload",
           &Flags::fsdp_cpu_offload,
           "BOOL",
           "fsdp: keep the shards of parameters, gradients and optimizer state in CPU memory");
  list.add("fsdp_prefetch",
           &Flags::fsdp_prefetch,
           "BOOL",
           "fsdp: gather the parameters of the next block while one computes; faster, but stores "
           "one more block");
  list.add("comm_timeout",
           &Flags::comm_timeout,
           "SECONDS",
           "How long processes wait for each other before the run fails")
      .above(0)
      .at_most(1e7)
      .aliases({"ddp_timeout"});
}

Parallel strategy_of(const TrainingFlags& flags) {
  if (flags.parallel.empty()) {
    return Parallel::Ddp;
  }
  check_strategy_name(flags.parallel);
  return parallel_named(flags.parallel);
}

ShardOptions shard_options(const TrainingFlags& flags) {
  ShardOptions options;
  options.strategy = strategy_of(flags);
  options.reduce_dtype = dtype_named(flags.reduce_dtype);
  options.cpu_offload = flags.fsdp_cpu_offload;
  options.prefetch = flags.fsdp_prefetch;
  options.block_elements = block_elements(parse_optimizer(flags.optim));
  return options;
}

std::chrono::milliseconds timeout_of_world(const TrainingFlags& flags) {
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.comm_timeout));
}

void check_parallel_effects(const TrainingFlags& flags) {
  TORCH_CHECK(
      strategy_of(flags) == Parallel::Ddp ||
          !updates_whole_parameters(parse_optimizer(flags.optim)),
      "--parallel ",
      flags.parallel,
      ": --optim ",
      flags.optim,
      " updates whole parameters, and here a process has parts of them. Use --parallel ddp, "
      "or --optim adamw_8bit");
  if (strategy_of(flags) == Parallel::Fsdp) {
    check_fsdp(flags);
    return;
  }
  refuse(flags, {"fsdp_cpu_offload"}, "without --parallel fsdp");
  TORCH_CHECK(!flags.given.contains("fsdp_prefetch"),
              "--fsdp_prefetch has no effect without --parallel fsdp");
}

void check_world_effects(const TrainingFlags& flags, std::optional<int64_t> world_size) {
  if (!world_size) {
    refuse(flags,
           {"parallel", "reduce_dtype", "comm_timeout"},
           "in one process: start with reprise launch --nproc N -- ..., or, to resume a run of "
           "several processes in one, with reprise launch --nproc 1 -- ...");
    return;
  }
  refuse(flags,
         {"gradient_offload"},
         "in a process of a world: gradients are summed over processes on the device. "
         "--fsdp_cpu_offload keeps their shards in CPU memory");
  TORCH_CHECK(
      !flags.auto_batch,
      "--auto_batch: sizes are tried by a process that was not launched as part of a world, "
      "and this is one of ",
      *world_size,
      ". Choose --per_device_train_batch_size; reprise plan --world ",
      *world_size,
      " tells which are fast");
  const bool asks_others = !flags.reward_command.empty() || !flags.reward_url.empty();
  TORCH_CHECK(*world_size == 1 || !asks_others || flags.reward_timeout < flags.comm_timeout,
              "--reward_timeout ",
              flags.reward_timeout,
              ": expected less than --comm_timeout ",
              flags.comm_timeout,
              ", or processes with their rewards would stop waiting for the others");
}

std::string about_parallelism(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);  // "ds.tensor_parallel_size"
  const auto missing = missing_kinds().find(last);
  if (missing != missing_kinds().end()) {
    return ": there is no " + missing->second + kWhatThereIs;
  }
  if (name == "fsdp") {
    return ": is called --parallel fsdp here";
  }
  const bool is_zero = last == "deepspeed" || last == "zero_stage";
  return is_zero ? ": stage 2 is called --parallel zero2 here, stage 3 --parallel fsdp" : "";
}

}  // namespace reprise::app
