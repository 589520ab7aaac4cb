// Flags for the model and LoRA.
#include "reprise/device.h"
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_models(FlagList& list, Objective objective) {
  list.add("model", &Flags::model, "DIR", "Model, or LoRA adapter, to train")
      .required()
      .aliases(
          {"model_name_or_path", "model.model_name_or_path", "model.name_or_path", "pretrain"});
  list.add("adapter", &Flags::adapter, "DIR", "Folder of a LoRA adapter to train further");
  list.add("base", &Flags::base, "DIR", "Base model, if --model is an adapter")
      .if_unset("the folder that its adapter_config.json names");
  list.add("text_only",
           &Flags::text_only,
           "BOOL",
           "Train the text part alone of a model that also sees or hears; a text model is saved");
  if (is_one_of(objective, {Objective::Dpo, Objective::Kto}) || is_online(objective)) {
    list.add("ref_model", &Flags::ref_model, "DIR", "Folder of the reference model")
        .if_unset("the model before training")
        .aliases({"ref_model_name_or_path", "ref.model_name_or_path"});
  }
  if (objective == Objective::Kd) {
    list.add("teacher_model", &Flags::teacher_model, "DIR", "Folder of the teacher")
        .required()
        .aliases({"teacher_model_name_or_path"});
    list.add("teacher_offload",
             &Flags::teacher_offload,
             "BOOL",
             "Keep the teacher's weights in CPU memory between its forward passes");
  }
}

void add_lora(FlagList& list) {
  list.begin_group("LoRA (any of these enables it)");
  list.add("use_peft", &Flags::use_peft, "BOOL", "Train LoRA adapters instead of the weights");
  list.add("lora_r", &Flags::lora_r, "RANK", "Rank of the adapters")
      .at_least(1)
      .aliases({"lora_rank", "ds.lora.rank"});
  list.add("lora_alpha",
           &Flags::lora_alpha,
           "NUMBER",
           "Scaling: the output of an adapter is multiplied by alpha / r")
      .above(0)
      .aliases({"ds.lora.alpha"});
  list.add("lora_dropout",
           &Flags::lora_dropout,
           "FRACTION",
           "Dropout probability on the input of adapters")
      .between(0, 1)
      .aliases({"ds.lora.dropout"});
  list.add("lora_target_modules",
           &Flags::lora_target_modules,
           "NAME...",
           "Linear layers that get an adapter; all-linear: all except the head")
      .many_with_commas()
      .aliases({"ds.lora.target_modules"});
  list.add("lora_modules_to_save",
           &Flags::lora_modules_to_save,
           "NAME...",
           "Modules that are fully trained besides the adapters")
      .many_with_commas();
  list.add("exclude_modules",
           &Flags::exclude_modules,
           "NAME...",
           "Linear layers that get no adapter although --lora_target_modules names them")
      .many_with_commas();
  list.add("layers_to_transform",
           &Flags::layers_to_transform,
           "LAYER...",
           "Numbers of the only blocks that get adapters, from 0, with --lora_target_modules "
           "NAME...")
      .many_with_commas();
  list.add("lora_rank_pattern",
           &Flags::lora_rank_pattern,
           "PATTERN=RANK...",
           "Ranks that differ from --lora_r, for modules whose path ends in a match of the pattern")
      .many();
  list.add("lora_alpha_pattern",
           &Flags::lora_alpha_pattern,
           "PATTERN=NUMBER...",
           "The same for --lora_alpha")
      .many();
  list.add("use_rslora", &Flags::use_rslora, "BOOL", "rsLoRA: multiply by alpha / sqrt(r) instead");
  list.add("use_dora",
           &Flags::use_dora,
           "BOOL",
           "DoRA: also train the length of each row of the adapted weights");
  list.add("init_lora_weights",
           &Flags::init_lora_weights,
           "NAME",
           "First values of the adapters: true (random and zero), gaussian, orthogonal; pissa or "
           "pissa_niter_N, from the largest singular values of the weights, exact or by N "
           "iterations; olora, from their QR decomposition");
}

}  // namespace

void add_model_flags(FlagList& list, Objective objective) {
  list.begin_group("Model");
  add_models(list, objective);
  list.add("dtype", &Flags::dtype, "NAME", "Data type of the weights")
      .one_of({"float32", "bfloat16"})
      .if_unset("that of the checkpoint")
      .aliases({"torch_dtype"});
  list.add("device", &Flags::device, "NAME", "Device to compute on")
      .one_of({kDeviceNames.begin(), kDeviceNames.end()})
      .if_unset("the GPU if there is one");
  list.add("bf16",
           &Flags::bf16,
           "BOOL",
           "Mixed precision (autocast): weights in float32, matrix products in bfloat16");
  list.add("attention",
           &Flags::attention,
           "NAME",
           "Attention kernel on a GPU; auto: cudnn on Hopper and newer GPUs if all rows have the "
           "same length (--packing_strategy wrapped), otherwise flash; math: no fused kernel")
      .one_of({"auto", "flash", "cudnn", "math"});
  list.add("deterministic",
           &Flags::deterministic,
           "BOOL",
           "Use deterministic kernels, so that a run can be repeated bit for bit; on a GPU steps "
           "take about 10 % longer")
      .aliases({"full_determinism"});
  list.add("cast_lm_head_to_fp32",
           &Flags::cast_lm_head_to_fp32,
           "BOOL",
           "Compute the head in float32, whatever the type of the rest");
  list.add("disable_dropout",
           &Flags::disable_dropout,
           "BOOL",
           "Train without dropout; false: use the dropout of the model's config.json");
  list.add("freeze",
           &Flags::freeze,
           "PATTERN...",
           "Regular expressions for names of parameters that are not trained")
      .many();
  list.add("train_only",
           &Flags::train_only,
           "PATTERN...",
           "Regular expressions for names of the only parameters that are trained")
      .many();
  list.add("allow_untrained_positions",
           &Flags::allow_untrained_positions,
           "BOOL",
           "Accept rows that are longer than what the model was trained with, its "
           "max_position_embeddings; only for rotary positions");
  if (!is_online(objective)) {  // noise would change the probabilities of completions
    list.add("neftune_noise_alpha",
             &Flags::neftune_noise_alpha,
             "NUMBER",
             "NEFTune: strength of the noise on embeddings during training; 0: none")
        .at_least(0);
  }
  add_lora(list);
  add_quantization_flags(list);
}

}  // namespace reprise::app
