#include "reprise/training/options/trainer_options.h"

#include "reprise/training/flags/memory_flags.h"
#include "reprise/training/options/schedule_options.h"

#include <ATen/ATen.h>

namespace reprise::app {

OptimizerOptions optimizer_options(const TrainingFlags& flags) {
  OptimizerOptions options;
  options.kind = parse_optimizer(flags.optim);
  options.beta1 = flags.adam_beta1;
  options.beta2 = flags.adam_beta2;
  options.epsilon = flags.adam_epsilon;
  options.weight_decay = flags.weight_decay;
  if (flags.momentum > 0) {
    options.momentum = flags.momentum;
  }
  options.muon_rate = flags.muon_adjust_lr_fn == "original" ? MuonRate::Original
                      : flags.muon_adjust_lr_fn == "spectral_unclamped"
                          ? MuonRate::SpectralUnclamped
                          : MuonRate::MatchRmsAdamW;
  options.scale_parameter = flags.scale_parameter;
  options.relative_step = flags.relative_step;
  options.warmup_init = flags.warmup_init;
  options.seed = flags.seed;
  options.host.state = flags.optimizer_offload;
  options.host.gradients = flags.gradient_offload;
  return options;
}

TrainerOptions trainer_options(const TrainingFlags& flags,
                               const Json& configuration,
                               const std::string& data_key,
                               const World& world) {
  TrainerOptions options;
  options.output = flags.output_dir;
  options.batch_size = flags.per_device_train_batch_size;
  options.accumulation = flags.gradient_accumulation_steps;
  options.epochs = flags.num_train_epochs;
  options.max_steps = flags.max_steps;
  options.learning_rate = flags.learning_rate;
  options.schedule = schedule_options(flags);
  options.warmup_steps = warmup_of(flags);
  options.optimizer = optimizer_options(flags);
  options.max_grad_norm = flags.max_grad_norm;
  options.ema_decay = flags.ema_decay;
  options.shuffle = flags.shuffle;
  options.seed = flags.seed;
  options.dropout = !flags.disable_dropout;
  if (flags.bf16) {
    options.autocast = at::kBFloat16;
  }
  options.memory = memory_limits(flags);
  options.auto_batch = flags.auto_batch;
  options.eval_batch_size = flags.per_device_eval_batch_size;
  options.eval_steps = flags.eval_steps;
  options.save_steps = flags.save_steps;
  options.save_total_limit = flags.save_total_limit;
  options.best_metric = flags.metric_for_best_model;
  options.greater_is_better = flags.greater_is_better;
  options.early_stopping_patience = flags.early_stopping_patience;
  options.configuration = configuration;
  options.configuration["data_key"] = data_key;
  options.configuration["world_size"] = world.size();
  return options;
}

}  // namespace reprise::app
