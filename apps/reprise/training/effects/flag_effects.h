// Refuses flags that contradict each other or would be ignored. Otherwise a user would notice only
// after the run.
#pragma once

#include "reprise/training/flags/flags.h"

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace reprise::app {

/// Throws with the flag and the reason.
void check_effects(const TrainingFlags& flags);

/// The part about --dtype and --bf16.
void check_precision(const TrainingFlags& flags);
/// The part about --optim.
void check_optimizer(const TrainingFlags& flags);
/// The part about LoRA.
void check_lora(const TrainingFlags& flags);
/// If --model is an adapter's folder, makes it --adapter, and its base --model. Call it before
/// check_effects().
void open_adapter(TrainingFlags& flags);
/// The part about quantised weights.
void check_quantization_effects(const TrainingFlags& flags);
/// The part about --adapter: LoRA flags that were given must be those of the adapter.
void check_adapter_settings(const TrainingFlags& flags);
/// The part about the losses of dpo.
void check_preference_effects(const TrainingFlags& flags);

/// The part about the reference of dpo and kto.
void check_reference_effects(const TrainingFlags& flags);

/// Derives values of grpo and ppo from others and replaces alternative spellings: the loss of the
/// estimator, gspo, no KL in the reward if it is in the loss. Call it before check_effects().
/// `said`: flags given explicitly.
void complete_online(TrainingFlags& flags, const std::set<std::string>& said);
/// The part about grpo and ppo.
void check_online_effects(const TrainingFlags& flags);

/// What --disable_dropout and --cast_lm_head_to_fp32 act on, which only the models tell.
struct TrainedPrecision {
  bool has_dropout = false;     ///< any of the trained models or their adapters has some
  bool is_all_float32 = false;  ///< weights and matrix products of the policy
};
/// The part about what is trained. Call it when the models are known.
void check_model_effects(const TrainingFlags& flags, const TrainedPrecision& trained);

/// Throws "--name has no effect REASON" for the first of these flags that was given. A switch that
/// is off and a 0 that is the default are accepted, as they ask for nothing.
void refuse(const TrainingFlags& flags,
            std::initializer_list<const char*> names,
            const std::string& reason);

/// Whether LoRA adapters are trained, new ones or those of --adapter.
bool trains_lora(const TrainingFlags& flags);
/// The flags with settings of new adapters.
const std::vector<std::string>& lora_settings();

}  // namespace reprise::app
