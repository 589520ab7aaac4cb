// Refuses flags of the reference model without effect. The loss decides whether there is one.
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/options/preference_options.h"

#include <c10/util/StringUtil.h>

namespace reprise::app {

namespace {

bool has_reference(const TrainingFlags& flags) {
  return flags.objective == Objective::Kto || needs_reference(preference_options(flags));
}

}  // namespace

void check_reference_effects(const TrainingFlags& flags) {
  if (!has_reference(flags)) {
    refuse(flags,
           {"ref_model", "precompute_ref_log_probs", "sync_ref_model"},
           flags.reference_free ? "with --reference_free"
                                : "with --loss_type " + c10::Join(",", flags.loss_type) +
                                      ", which has no reference");
  }
  if (trains_lora(flags)) {
    refuse(flags, {"ref_model"}, "with LoRA: the reference is the model without the new adapters");
    refuse(flags,
           {"sync_ref_model"},
           "with LoRA: the reference is the base model, which does not change");
  }
  if (flags.precompute_ref_log_probs) {
    refuse(flags,
           {"sync_ref_model"},
           "with --precompute_ref_log_probs: its log-probabilities are fixed");
  } else {
    refuse(flags, {"precompute_ref_batch_size"}, "without --precompute_ref_log_probs");
  }
  if (!flags.sync_ref_model) {
    refuse(flags, {"ref_model_mixup_alpha", "ref_model_sync_steps"}, "without --sync_ref_model");
  }
}

}  // namespace reprise::app
