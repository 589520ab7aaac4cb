// The flags of a training command: their values, their defaults per objective, and which of them
// were given. One struct for all objectives; each command declares only its own flags.
#pragma once

#include "reprise/training/flags/online_flags.h"

#include <reprise/data/rows.h>
#include <reprise/io/json.h>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace reprise::app {

struct TrainingFlags : OnlineFlags {
  Objective objective = Objective::Sft;
  /// Names without dashes of flags given on the command line or in a config file. Keys of a file
  /// whose final value is the default do not count: a saved configuration contains every flag.
  std::set<std::string> given;
  std::vector<std::string> notes;  ///< what to tell the user about the command line, a line each

  // Model
  std::string model;
  std::string adapter;    ///< a LoRA adapter to train further; also that of --model
  std::string base;       ///< of an adapter given as --model; empty once `model` is that folder
  std::string ref_model;  ///< dpo, kto, grpo, ppo; empty: the model before training
  std::string teacher_model;
  bool text_only = false;          ///< of models that also see or hear
  std::string dtype;               ///< of the weights; empty: that of the checkpoint
  std::string device;              ///< empty: the GPU if there is one
  bool bf16 = false;               ///< autocast
  std::string attention = "auto";  ///< auto, flash, cudnn, math
  bool deterministic = false;
  bool cast_lm_head_to_fp32 = false;
  bool disable_dropout = false;     ///< default true for dpo, kto, rm
  std::vector<std::string> freeze;  ///< patterns of names of parameters that are not trained
  std::vector<std::string>
      train_only;  ///< patterns of names of the only parameters that are trained
  bool allow_untrained_positions = false;
  double neftune_noise_alpha = 0;

  // LoRA
  bool use_peft = false;  ///< also set by any LoRA flag
  int64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0.05;
  std::vector<std::string> lora_target_modules = {"all-linear"};
  std::vector<std::string> lora_modules_to_save;
  bool use_rslora = false;
  bool use_dora = false;
  std::string init_lora_weights = "true";
  std::vector<std::string> lora_rank_pattern, lora_alpha_pattern;  ///< PATTERN=NUMBER
  std::vector<std::string> exclude_modules;
  std::vector<std::string> layers_to_transform;  ///< numbers of blocks

  // Quantisation
  bool load_in_4bit = false, load_in_8bit = false;
  std::string bnb_4bit_quant_type = "nf4";
  bool use_bnb_nested_quant = false;   ///< double quantisation
  std::string bnb_4bit_compute_dtype;  ///< empty: that of the input
  std::string bnb_4bit_quant_storage = "uint8";
  std::vector<std::string> llm_int8_skip_modules;

  // Data
  std::string data, eval_data;
  std::string cache_dir;
  int64_t max_length = 1024;
  std::string truncation_mode = "keep_start";
  bool drop_too_long = false;
  int64_t max_samples = -1;
  bool shuffle = true;
  bool skip_bad_rows = false;
  bool show_example = false;
  std::string chat_template;                ///< a file
  std::map<std::string, std::string> keys;  ///< --prompt_key etc.
  std::string input_template;
  bool packing = false, padding_free = false;
  std::optional<bool> eval_packing;  ///< unset: the value of packing
  std::string packing_strategy = "bfd";
  int64_t pad_to_multiple_of = 1;
  std::optional<bool> completion_only_loss;
  bool assistant_only_loss = false;
  std::string trained_turns = "all";  ///< all, last

  // Training
  std::string output_dir;
  int64_t per_device_train_batch_size = 8, per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3;
  int64_t max_steps = -1;
  double learning_rate = 2e-5;
  std::string lr_scheduler_type = "linear";
  double warmup_steps = 0;
  double warmup_ratio = 0;
  std::optional<double> min_lr_ratio;  ///< unset: see schedule_options()
  int64_t lr_decay_steps = 0;
  std::string optim = "adamw_torch_fused";
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double momentum = 0;  ///< 0: the optimizer's default
  std::string muon_adjust_lr_fn = "match_rms_adamw";
  bool scale_parameter = false, relative_step = false, warmup_init = false;
  double weight_decay = 0;
  double max_grad_norm = 1.0;
  double ema_decay = 0;
  uint64_t seed = 42;

  // Gradient checkpointing
  bool gradient_checkpointing = false;
  bool gradient_checkpointing_use_reentrant = false;
  std::string gradient_checkpointing_kwargs;  ///< JSON
  double gradient_checkpointing_ratio = 0;
  std::string gradient_checkpointing_layers;
  std::string gradient_checkpointing_policy = "full";

  // Memory budget
  std::string activation_memory_budget, memory_budget;  ///< as parse_budget takes them
  std::string host_memory_budget;
  bool allow_lossy = false;
  std::string memory_plan;
  bool auto_batch = false;

  // Offload
  bool optimizer_offload = false, gradient_offload = false;

  // Several processes
  std::string parallel;      ///< ddp, zero2, fsdp; empty: ddp
  std::string reduce_dtype;  ///< of gradients; empty: float32
  bool fsdp_cpu_offload = false;
  bool fsdp_prefetch = true;
  double comm_timeout = 600;  ///< seconds

  // Objective
  std::vector<std::string> loss_type;
  std::vector<double> loss_weights;
  double beta = 0.1;
  double label_smoothing = 0;
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  std::optional<double> ld_alpha;
  bool use_weighting = false;
  double simpo_gamma = 0.5, cpo_alpha = 1.0, nll_loss_coef = 0, alphapo_alpha = 0;
  bool reference_free = false;
  bool precompute_ref_log_probs = false;
  int64_t precompute_ref_batch_size = 0;  ///< 0: as in training
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  int64_t ref_model_sync_steps = 512;
  double desirable_weight = 1, undesirable_weight = 1;
  std::string kl_pairing = "previous";  ///< or next
  double center_rewards_coefficient = 0;
  bool use_margin = true;
  std::string pooling = "last_attended";     ///< or rightmost_not_pad
  std::string prm_convention = "step_ends";  ///< or placeholders
  std::string step_separator = "\n";
  bool train_on_last_step_only = false;
  std::string placeholder_token;
  std::vector<std::string> reward_tokens;
  double kd_coef = 0.4;
  std::string divergence = "forward_kl";  ///< or jsd
  double jsd_beta = 0.5;
  double temperature = 1.0;  ///< kd: of both models; grpo, ppo: of sampling and the loss
  bool teacher_offload = false;

  // Logging, evaluation, saving
  int64_t logging_steps = 10;
  int64_t eval_steps = 0;
  int64_t save_steps = 500;
  int64_t save_total_limit = 0;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model;
  bool greater_is_better = false;
  int64_t early_stopping_patience = 0;
  std::string resume_from_checkpoint;  ///< auto, or a folder; empty: no
  bool overwrite_output_dir = false;
  bool allow_changes = false;
};

/// The flags of an objective with their default values.
TrainingFlags default_flags(Objective objective);

/// Declares the flags of an objective on its command, with hidden aliases for the names in other
/// programs, and --config FILE.yaml. Call finish_flags() when the command line has been parsed.
std::shared_ptr<TrainingFlags> add_training_flags(CLI::App& command, Objective objective);

/// Fills in the values and `given` from the command line and the config file. Throws c10::Error for
/// flags that are unknown, missing, or without effect in this combination.
void finish_flags(const CLI::App& command, TrainingFlags& flags);

/// Every flag of the command with its value, including defaults, and without passwords. It is saved
/// as training.yaml and compared when a run resumes.
Json resolved_configuration(const TrainingFlags& flags);
/// The configuration as YAML, for --config.
std::string to_yaml(const Json& configuration);

}  // namespace reprise::app
