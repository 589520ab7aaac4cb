// Takes the training commands' flags as they are declared there, so that names, aliases and
// accepted values cannot differ. Only the help and some limits are a plan's own.
#include "reprise/plan/plan_table.h"

#include "reprise/training/effects/flag_effects.h"

#include <reprise/device_profile.h>

#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace reprise::app {

namespace {

class PlanFlagList {
 public:
  void begin_group(std::string name) { group_ = std::move(name); }

  /// A flag of the training command `owner`.
  FlagSpec& take(const char* name, Objective owner = Objective::Sft) {
    const FlagSpec* flag = find_flag(owner, name);
    TORCH_INTERNAL_ASSERT(flag != nullptr, name);
    flags_.push_back(*flag);
    flags_.back().group = group_;
    flags_.back().is_required = false;
    return flags_.back();
  }

  FlagSpec& take(const char* name, std::string help, Objective owner = Objective::Sft) {
    FlagSpec& flag = take(name, owner);
    flag.help = std::move(help);
    return flag;
  }

  std::vector<FlagSpec> flags() { return std::move(flags_); }

 private:
  std::string group_;
  std::vector<FlagSpec> flags_;
};

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceProfile& device : known_devices()) {
    names.push_back(device.name);
  }
  names.insert(names.end(), {"cuda", "cpu"});
  return names;
}

void add_model(PlanFlagList& list) {
  list.begin_group("Model");
  list.take("model", "Folder with the model's config.json, or of a LoRA adapter").required();
  list.take("teacher_model", "kd: folder with the teacher's config.json", Objective::Kd);
  list.take("dtype").if_unset("that of config.json");
  list.take("text_only");
  list.take("bf16");
  list.take("attention",
            "Attention kernel on a GPU; auto: flash; math: no fused kernel. cudnn needs a Hopper "
            "GPU or newer");
  list.take("disable_dropout", "Train without dropout");
  list.begin_group("LoRA (any of these enables it)");
  list.take("use_peft").shorthand("lora");
  for (const std::string& setting : lora_settings()) {
    list.take(setting.c_str());
  }
  list.take("adapter", "Folder of a LoRA adapter to train further");
  list.take("base");
  list.begin_group("Quantisation of the weights below LoRA adapters");
  for (const char* setting : {"load_in_4bit",
                              "load_in_8bit",
                              "bnb_4bit_quant_type",
                              "use_bnb_nested_quant",
                              "bnb_4bit_compute_dtype",
                              "llm_int8_skip_modules"}) {
    list.take(setting);
  }
}

void add_step(PlanFlagList& list) {
  list.begin_group("Training step");
  list.take("per_device_train_batch_size", "Rows per micro-batch; pairs for rm and dpo")
      .shorthand("batch");
  list.take("max_length", "Tokens per row; for grpo and ppo of a prompt with its completion")
      .at_least(1)
      .shorthand("seq");
  list.take("max_prompt_length",
            "grpo, ppo: tokens of a prompt; with --max_completion_length instead of --max_length",
            Objective::Grpo);
  list.take("max_completion_length", "grpo, ppo: tokens of a completion", Objective::Grpo);
  list.take("gradient_accumulation_steps").shorthand("accumulation");
  list.take("optim");
  list.take("momentum");
}

void add_memory(PlanFlagList& list) {
  list.begin_group("Device and memory");
  list.take("device", "Device to plan for; cuda and cpu: that of this machine")
      .one_of(device_names());
  list.take("activation_memory_budget",
            "Largest size of the activations: 6GiB, 500MB, a fraction of their size without "
            "checkpointing (0.5), min, max, or auto (what the device has left)")
      .if_unset("auto")
      .shorthand("budget");
  list.take("memory_budget",
            "The same for weights, gradients, optimizer state and activations together: 40GiB or "
            "auto");
  list.take("optimizer_offload");
  list.take("gradient_offload");
  list.take(
      "parallel",
      "With --world, what each process stores: ddp: everything; zero2: its shard of gradients "
      "and optimizer state; fsdp: its shard of the parameters too");
}

}  // namespace

const FlagTable& plan_table() {
  static const FlagTable table = [] {
    PlanFlagList list;
    add_model(list);
    add_step(list);
    add_memory(list);
    FlagTable made{
        .command = "plan", .flags = list.flags(), .defaults = default_flags(Objective::Sft)};
    made.defaults.per_device_train_batch_size = 1;
    return made;
  }();
  return table;
}

}  // namespace reprise::app
