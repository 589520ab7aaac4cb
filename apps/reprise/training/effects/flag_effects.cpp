// Which flags can be combined. One function per group of --help.
#include "reprise/training/effects/flag_effects.h"

#include "reprise/training/flags/flag_table.h"
#include "reprise/training/flags/memory_flags.h"
#include "reprise/training/flags/parallel_flags.h"
#include "reprise/training/options/lora_config.h"

#include <reprise/optim/optimizer.h>

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

void check_model(const TrainingFlags& flags) {
  check_precision(flags);
  if (!flags.bf16 && flags.dtype == "float32") {
    refuse(flags, {"cast_lm_head_to_fp32"}, "with --dtype float32: the head is already in float32");
  }
  if (flags.device == "cpu") {
    refuse(flags, {"teacher_offload"}, "with --device cpu: the teacher is already in CPU memory");
  }
}

void check_attention(const TrainingFlags& flags) {
  const std::string& name = flags.attention;
  const bool is_of_gpu = name == "flash" || name == "cudnn";
  TORCH_CHECK(!is_of_gpu || flags.device != "cpu",
              "--attention ",
              name,
              " has no effect with --device cpu: it is a GPU kernel");
  if (name != "cudnn") {
    return;
  }
  TORCH_CHECK(!flags.deterministic,
              "--attention cudnn does not work with --deterministic: its backward sums in varying "
              "order. Use flash");
  const bool has_documents =
      flags.padding_free || (flags.packing && flags.packing_strategy != "wrapped");
  TORCH_CHECK(!has_documents,
              "--attention cudnn has no effect with --",
              flags.padding_free ? "padding_free" : "packing_strategy " + flags.packing_strategy,
              ": rows with several documents need flash");
}

void check_data(const TrainingFlags& flags) {
  if (flags.max_length == 0) {
    refuse(flags, {"truncation_mode", "drop_too_long"}, "with --max_length 0: no row is too long");
    refuse(flags, {"packing"}, "with --max_length 0, the length that rows are packed to");
  }
  if (flags.drop_too_long) {
    refuse(flags, {"truncation_mode"}, "with --drop_too_long: no row is cut");
  }
  TORCH_CHECK(flags.max_samples != 0, "--max_samples 0 leaves no rows; -1 takes all");
  if (flags.packing) {
    refuse(flags,
           {"truncation_mode", "drop_too_long"},
           "with --packing: --packing_strategy decides what happens to long rows");
    refuse(flags, {"padding_free"}, "with --packing: packed rows have almost no padding");
  } else {
    refuse(flags, {"packing_strategy", "eval_packing"}, "without --packing");
  }
  if (!flags.assistant_only_loss) {
    refuse(flags, {"trained_turns"}, "without --assistant_only_loss");
  }
}

void check_schedule(const TrainingFlags& flags) {
  const std::string& kind = flags.lr_scheduler_type;
  const bool decays_late = kind == "warmup_stable_decay" || kind == "wsd";
  const std::string with_kind = "with --lr_scheduler_type " + kind;
  TORCH_CHECK(flags.max_steps != 0, "--max_steps 0 trains nothing; -1 uses --num_train_epochs");
  if (flags.max_steps > 0) {
    refuse(flags, {"num_train_epochs"}, "with --max_steps: give one of them");
  }
  if (flags.warmup_steps > 0) {
    refuse(flags, {"warmup_ratio"}, "with --warmup_steps: give one of them");
  }
  if (kind == "constant") {
    refuse(flags, {"warmup_steps", "warmup_ratio"}, with_kind + ": use constant_with_warmup");
  }
  if (!decays_late) {
    refuse(flags, {"lr_decay_steps"}, with_kind + ": it is for warmup_stable_decay");
  }
  if (!decays_late && kind != "cosine_with_min_lr") {
    refuse(flags,
           {"min_lr_ratio"},
           with_kind + ": it is for cosine_with_min_lr and warmup_stable_decay");
  }
  TORCH_CHECK(!decays_late || flags.lr_decay_steps > 0,
              "--lr_scheduler_type ",
              kind,
              " needs --lr_decay_steps; otherwise it would never decay");
}

void check_adafactor(const TrainingFlags& flags, OptimizerKind kind) {
  if (kind != OptimizerKind::Adafactor) {
    refuse(flags,
           {"scale_parameter", "relative_step", "warmup_init"},
           "with --optim " + flags.optim + ": it is for adafactor");
  }
  if (!flags.relative_step) {
    refuse(flags, {"warmup_init"}, "without --relative_step");
    return;
  }
  for (const char* name :
       {"learning_rate", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "lr_decay_steps"}) {
    TORCH_CHECK(!flags.given.contains(name),
                "--",
                name,
                " has no effect with --relative_step: Adafactor takes its own learning rate");
  }
}

void check_evaluation(const TrainingFlags& flags) {
  if (flags.eval_data.empty()) {
    refuse(flags,
           {"eval_steps",
            "per_device_eval_batch_size",
            "eval_packing",
            "metric_for_best_model",
            "greater_is_better",
            "load_best_model_at_end",
            "early_stopping_patience"},
           "without --eval_data");
  }
  if (flags.metric_for_best_model.empty()) {
    refuse(flags,
           {"greater_is_better", "load_best_model_at_end", "early_stopping_patience"},
           "without --metric_for_best_model, which decides the best checkpoint");
  }
  if (flags.save_steps == 0 && flags.metric_for_best_model.empty()) {
    refuse(flags, {"save_total_limit"}, "with --save_steps 0: no checkpoints are made");
  }
  if (flags.resume_from_checkpoint.empty()) {
    refuse(flags, {"allow_changes"}, "without --resume_from_checkpoint");
  }
  TORCH_CHECK(flags.resume_from_checkpoint.empty() || !flags.overwrite_output_dir,
              "--overwrite_output_dir would remove the checkpoint of --resume_from_checkpoint");
}

void check_kto(const TrainingFlags& flags) {
  TORCH_CHECK(!flags.shuffle,
              "--shuffle true: kto keeps the order of the file, as it compares neighbouring rows");
  const std::string& loss = flags.loss_type.front();
  if (loss == "apo_zero_unpaired") {
    refuse(flags, {"kl_pairing"}, "with --loss_type apo_zero_unpaired, which has no KL term");
    return;
  }
  TORCH_CHECK(flags.per_device_train_batch_size > 1,
              "--per_device_train_batch_size 1: ",
              loss,
              " compares the rows of a micro-batch with each other, and needs at least 2");
  TORCH_CHECK(flags.eval_data.empty() || flags.per_device_eval_batch_size > 1,
              "--per_device_eval_batch_size 1: ",
              loss,
              " compares the rows of a batch with each other, and needs at least 2");
}

void check_prm(const TrainingFlags& flags) {
  if (flags.prm_convention == "step_ends") {
    refuse(flags,
           {"placeholder_token", "reward_tokens", "input_key", "label_key"},
           "with --prm_convention step_ends: it is for placeholders");
    return;
  }
  refuse(
      flags,
      {"step_separator", "train_on_last_step_only", "prompt_key", "completions_key", "labels_key"},
      "with --prm_convention placeholders: it is for step_ends");
  TORCH_CHECK(!flags.placeholder_token.empty(),
              "--prm_convention placeholders needs --placeholder_token");
}

void check_objective(const TrainingFlags& flags) {
  switch (flags.objective) {
    case Objective::Sft:
      return;
    case Objective::Rm:
      if (flags.loss_type.front() == "logexp") {
        refuse(flags, {"use_margin", "margin_key"}, "with --loss_type logexp, which has no margin");
      } else if (!flags.use_margin) {
        refuse(flags, {"margin_key"}, "with --use_margin false");
      }
      return;
    case Objective::Prm:
      return check_prm(flags);
    case Objective::Dpo:
      TORCH_CHECK(flags.loss_weights.empty() || flags.loss_weights.size() == flags.loss_type.size(),
                  "--loss_weights has ",
                  flags.loss_weights.size(),
                  " weights for ",
                  flags.loss_type.size(),
                  " losses of --loss_type");
      check_preference_effects(flags);
      return check_reference_effects(flags);
    case Objective::Kto:
      check_kto(flags);
      return check_reference_effects(flags);
    case Objective::Kd:
      TORCH_CHECK(flags.kd_coef > 0, "--kd_coef 0 does not use the teacher; use reprise sft");
      if (flags.divergence != "jsd") {
        refuse(flags, {"jsd_beta"}, "with --divergence " + flags.divergence);
      }
      return;
    case Objective::Grpo:
    case Objective::Ppo:
      return check_online_effects(flags);
  }
}

}  // namespace

void check_precision(const TrainingFlags& flags) {
  TORCH_CHECK(!flags.bf16 || flags.dtype.empty() || flags.dtype == "float32",
              "--bf16 keeps the weights in float32: leave out --dtype ",
              flags.dtype);
}

void check_optimizer(const TrainingFlags& flags) {
  const OptimizerKind kind = parse_optimizer(flags.optim);
  const std::string with_kind = "with --optim " + flags.optim;
  const bool is_adamw = kind == OptimizerKind::AdamW || kind == OptimizerKind::AdamW8bit ||
                        kind == OptimizerKind::AdamWBf16;
  const bool has_momentum =
      kind == OptimizerKind::RmsProp || kind == OptimizerKind::Sgd || kind == OptimizerKind::Muon;
  if (is_adamw) {
    refuse(flags, {"momentum"}, "with AdamW: it is for --optim rmsprop, sgd and muon");
  } else if (!has_momentum) {
    refuse(flags, {"momentum"}, with_kind + ": it is for rmsprop, sgd and muon");
  }
  if (!is_adamw && kind != OptimizerKind::Muon) {
    refuse(flags, {"adam_epsilon"}, with_kind + ": it is for AdamW");
    if (kind != OptimizerKind::Lion) {
      refuse(flags, {"adam_beta1", "adam_beta2"}, with_kind + ": it is for AdamW");
    }
  }
  if (kind != OptimizerKind::Muon) {
    refuse(flags, {"muon_adjust_lr_fn"}, with_kind + ": it is for muon");
  }
  check_adafactor(flags, kind);
}

void check_lora(const TrainingFlags& flags) {
  if (flags.disable_dropout && flags.lora_dropout > 0) {
    refuse(flags,
           {"lora_dropout"},
           "because dropout is off: give --disable_dropout false to enable it");
  }
  if (!flags.adapter.empty()) {
    check_adapter_settings(flags);
  }
  const LoraConfig lora =
      lora_config(flags, flags.model);  // throws for values that have no meaning
  TORCH_CHECK(!lora.use_dora || !lora.init.is_decomposition(),
              "--use_dora cannot be combined with --init_lora_weights ",
              lora.init.name(),
              ": what is trained then could not be saved as an adapter of the base model. Leave "
              "one of them out");
  TORCH_CHECK(
      lora.layers.empty() || !std::holds_alternative<LoraConfig::AllLinear>(lora.targets),
      "--layers_to_transform needs --lora_target_modules with names, such as q_proj v_proj");
}

void check_model_effects(const TrainingFlags& flags, const TrainedPrecision& trained) {
  const bool asks_for_nothing =
      !flags.disable_dropout && !default_flags(flags.objective).disable_dropout;
  TORCH_CHECK(trained.has_dropout || asks_for_nothing || !flags.given.contains("disable_dropout"),
              "--disable_dropout has no effect: the model has no dropout");
  if (trained.is_all_float32) {
    refuse(flags,
           {"cast_lm_head_to_fp32"},
           "because the model is in float32, and so is its head: see --dtype and --bf16");
  }
}

const std::vector<std::string>& lora_settings() {
  static const std::vector<std::string> names = {"lora_r",
                                                 "lora_alpha",
                                                 "lora_dropout",
                                                 "lora_target_modules",
                                                 "lora_modules_to_save",
                                                 "exclude_modules",
                                                 "layers_to_transform",
                                                 "lora_rank_pattern",
                                                 "lora_alpha_pattern",
                                                 "use_rslora",
                                                 "use_dora",
                                                 "init_lora_weights"};
  return names;
}

bool trains_lora(const TrainingFlags& flags) {
  bool is_on = flags.use_peft || !flags.adapter.empty();
  for (const std::string& name : lora_settings()) {
    is_on = is_on || flags.given.contains(name);
  }
  return is_on;
}

void refuse(const TrainingFlags& flags,
            std::initializer_list<const char*> names,
            const std::string& reason) {
  for (const char* name : names) {
    if (!flags.given.contains(name)) {
      continue;
    }
    const FlagSpec* flag = find_flag(flags.objective, name);
    TORCH_INTERNAL_ASSERT(flag != nullptr);
    const Json value = value_of(flags, *flag);
    const bool is_off =
        value == false || (value == 0 && value_of(default_flags(flags.objective), *flag) == 0);
    TORCH_CHECK(is_off, "--", name, " has no effect ", reason);
  }
}

void check_effects(const TrainingFlags& flags) {
  check_model(flags);
  check_attention(flags);
  check_lora(flags);
  check_quantization_effects(flags);
  check_data(flags);
  check_schedule(flags);
  check_optimizer(flags);
  check_evaluation(flags);
  check_memory_effects(flags);
  check_parallel_effects(flags);
  check_objective(flags);
}

}  // namespace reprise::app
