// The arguments of a run of tests/fixtures/training, as TRL names them, as our options.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/data/rows.h>
#include <reprise/io/json.h>
#include <reprise/loss/preference.h>
#include <reprise/loss/unpaired.h>
#include <reprise/train/kd.h>
#include <reprise/train/rm.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <map>
#include <string>

namespace reprise::testing {

/// By the name of the file of runs.
inline Objective objective_named(const std::string& name) {
  static const std::map<std::string, Objective> names = {{"sft", Objective::Sft},
                                                         {"dpo", Objective::Dpo},
                                                         {"kto", Objective::Kto},
                                                         {"reward", Objective::Rm},
                                                         {"prm", Objective::Prm},
                                                         {"kd", Objective::Kd}};
  return names.at(name);
}

/// 0: no limit.
inline int64_t max_length_of(const Json& arguments) {
  constexpr int64_t kDefault = 1024;
  const auto given = arguments.find("max_length");
  return given == arguments.end() ? kDefault : given->is_null() ? 0 : given->get<int64_t>();
}

inline bool is_packed(const Json& arguments) {
  return arguments.value("packing", false);
}

inline Packing packing_of(const Json& arguments) {
  static const std::map<std::string, Packing> names = {{"bfd", Packing::BestFit},
                                                       {"bfd_split", Packing::BestFitSplit},
                                                       {"wrapped", Packing::Wrapped}};
  return names.at(arguments.at("packing_strategy"));
}

inline RowOptions row_options(Objective objective, const Json& arguments) {
  RowOptions options;
  options.objective = objective;
  options.max_length = is_packed(arguments) ? 0 : max_length_of(arguments);  // packing cuts itself
  options.assistant_only_loss = arguments.value("assistant_only_loss", false);
  options.train_on_last_step_only = arguments.value("train_on_last_step_only", false);
  if (arguments.contains("completion_only_loss")) {
    options.completion_only_loss = arguments["completion_only_loss"].get<bool>();
  }
  if (arguments.value("truncation_mode", "keep_start") == "keep_end") {
    options.truncation = TruncationSide::KeepEnd;
  }
  return options;
}

inline UnpairedOptions unpaired_options(const Json& arguments) {
  UnpairedOptions options;
  options.loss = parse_unpaired_loss(arguments.value("loss_type", "kto"));
  options.beta = arguments.value("beta", 0.1);
  options.desirable_weight = arguments.value("desirable_weight", 1.0);
  options.undesirable_weight = arguments.value("undesirable_weight", 1.0);
  return options;
}

inline CollateOptions collate_options(Objective objective, const Json& arguments, int64_t pad_id) {
  CollateOptions options;
  options.pad_id = pad_id;
  options.packed = is_packed(arguments) && packing_of(arguments) != Packing::Wrapped;
  options.padding_free = arguments.value("padding_free", false);
  if (objective == Objective::Kto) {
    options.mismatch = needs_kl(unpaired_options(arguments));
    options.max_length = max_length_of(arguments);
  }
  return options;
}

inline PreferenceOptions preference_options(const Json& arguments) {
  PreferenceOptions options;
  const Json losses = arguments.value("loss_type", Json("sigmoid"));
  const Json names = losses.is_array() ? losses : Json::array({losses});
  const Json weights = arguments.value("loss_weights", Json(std::vector<double>(names.size(), 1)));
  options.losses.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    options.losses.emplace_back(parse_preference_loss(names[i].get<std::string>()),
                                weights[i].get<double>());
  }
  options.beta = arguments.value("beta", options.beta);
  options.label_smoothing = arguments.value("label_smoothing", options.label_smoothing);
  options.discopop_tau = arguments.value("discopop_tau", options.discopop_tau);
  options.f_divergence = parse_f_divergence(arguments.value("f_divergence_type", "reverse_kl"));
  options.f_alpha = arguments.value("f_alpha_divergence_coef", options.f_alpha);
  options.use_weighting = arguments.value("use_weighting", false);
  if (arguments.contains("ld_alpha")) {
    options.ld_alpha = arguments["ld_alpha"].get<double>();
  }
  return options;
}

inline RmOptions rm_options(const Json& arguments) {
  RmOptions options;
  options.loss.centering = arguments.value("center_rewards_coefficient", 0.0);
  return options;
}

/// Either OpenRLHF's (kd_coef), or TRL's generalised Jensen-Shannon divergence alone (beta).
inline KdOptions kd_options(const Json& arguments) {
  KdOptions options;
  options.coefficient = arguments.value("kd_coef", 1.0);
  if (arguments.contains("beta")) {
    options.divergence.kind = DivergenceOptions::Kind::Jensen;
    options.divergence.beta = arguments["beta"].get<double>();
    options.divergence.temperature = arguments.at("temperature").get<double>();
  }
  return options;
}

inline TrainerOptions trainer_options(const Json& arguments) {
  TrainerOptions options;
  options.batch_size = arguments.at("per_device_train_batch_size");
  options.accumulation = arguments.value("gradient_accumulation_steps", int64_t{1});
  options.epochs = arguments.value("num_train_epochs", 3.0);
  options.max_steps = arguments.at("max_steps");
  options.learning_rate = arguments.at("learning_rate");
  options.schedule.kind = schedule_named(arguments.value("lr_scheduler_type", "linear"));
  options.warmup_steps = arguments.value("warmup_steps", 0.0);
  options.optimizer.weight_decay = arguments.value("weight_decay", 0.0);
  options.max_grad_norm = arguments.at("max_grad_norm");
  options.seed = arguments.at("seed");
  options.shuffle = arguments.value("train_sampling_strategy", "random") == "random";
  return options;
}

}  // namespace reprise::testing
