#include "reprise/training/setup/make_objective.h"

#include "reprise/adapter_folder.h"
#include "reprise/reward_pad.h"
#include "reprise/training/options/preference_options.h"
#include "reprise/training/setup/open_reference.h"

#include <reprise/train/dpo.h>
#include <reprise/train/kd.h>
#include <reprise/train/kto.h>
#include <reprise/train/precompute.h>
#include <reprise/train/prm.h>
#include <reprise/train/rm.h>
#include <reprise/train/sft.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

void name_pad_token(const TrainedModel& trained,
                    const TrainingData& data,
                    Pooling pooling,
                    ProgressLine& progress) {
  const auto before = trained.model->config().pad_id;
  const auto warning = set_reward_pad(
      *trained.model, *data.tokenizer, {.pooling = pooling, .end_with_pad = data.ends_with_pad});
  const auto pad = trained.model->config().pad_id;
  if (!warning.empty()) {
    progress.print("warning: " + warning);
  }
  if (trained.lora && pad != before) {
    progress.print(
        "warning: an adapter has no config.json. To read rewards with transformers, set "
        "pad_token_id of its base model to " +
        (pad ? std::to_string(*pad) : "None") + " (reprise merge does)");
  }
}

UnpairedOptions unpaired_options(const TrainingFlags& flags) {
  UnpairedOptions options;
  options.loss = parse_unpaired_loss(flags.loss_type.front());
  options.beta = flags.beta;
  options.desirable_weight = flags.desirable_weight;
  options.undesirable_weight = flags.undesirable_weight;
  validate(options);
  return options;
}

fs::path cache_folder(const TrainingFlags& flags) {
  if (!flags.cache_dir.empty()) {
    return flags.cache_dir;
  }
  return default_cache_folder();
}

// Files that the reference's log-probabilities depend on.
std::vector<fs::path> weights_in(const std::string& folder) {
  std::vector<fs::path> files;
  if (!folder.empty()) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto extension = entry.path().extension();
      if (extension == ".safetensors" || extension == ".bin" || extension == ".json") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Where the reference's log-probabilities of a data set are cached, and under which key.
PrecomputeOptions precompute_options(const TrainingFlags& flags,
                                     const TrainingData& data,
                                     bool is_evaluation,
                                     const World& world) {
  PrecomputeOptions options;
  options.mismatch_across_processes = !is_evaluation;
  options.collate = data.collate;
  const int64_t batch_size =
      is_evaluation ? flags.per_device_eval_batch_size : flags.per_device_train_batch_size;
  // kto compares the completions of a batch, so the batches must be those of training.
  options.batch_size = flags.objective == Objective::Kto || flags.precompute_ref_batch_size == 0
                           ? batch_size
                           : flags.precompute_ref_batch_size;
  if (flags.bf16) {
    options.autocast = at::kBFloat16;
  }
  const auto reference = flags.ref_model.empty() ? ModelFolders{flags.model, flags.adapter}
                                                 : model_folders({flags.ref_model, ""}, "");
  auto files = weights_in(reference.model);
  const auto adapter = weights_in(reference.adapter);
  files.insert(files.end(), adapter.begin(), adapter.end());
  options.key = content_hash(files,
                             {{"data", is_evaluation ? data.evaluation_key : data.train_key},
                              {"head", flags.cast_lm_head_to_fp32},
                              {"kl_pairing", flags.kl_pairing},
                              {"dtype", flags.dtype},
                              {"bf16", flags.bf16},
                              {"ld_alpha", flags.ld_alpha ? Json(*flags.ld_alpha) : Json()},
                              {"loss_type", flags.loss_type},
                              {"batch", options.batch_size},
                              {"at_once", options.mismatch_across_processes ? world.size() : 1},
                              {"max_length", flags.max_length}},
                             cache_folder(flags));
  options.cache = cache_folder(flags) / ("reference-" + options.key + ".safetensors");
  return options;
}

// Builds an objective with its reference, or with precomputed log-probabilities. In that case the
// reference is loaded only if they are not cached.
template <class Make>
std::unique_ptr<TrainingObjective> with_reference(const TrainingFlags& flags,
                                                  const TrainedModel& trained,
                                                  const TrainingData& data,
                                                  const RunWorld& world,
                                                  ProgressLine& progress,
                                                  const Make& make) {
  if (!flags.precompute_ref_log_probs) {
    return make(std::optional(open_reference(flags, trained, world, progress)));
  }
  const auto train = precompute_options(flags, data, /*is_evaluation=*/false, world.world());
  const auto evaluation = precompute_options(flags, data, /*is_evaluation=*/true, world.world());
  auto train_logps = find_precomputed(*data.train, train, world.world());
  auto evaluation_logps = data.evaluation == nullptr
                              ? at::Tensor()
                              : find_precomputed(*data.evaluation, evaluation, world.world());
  const bool has_all =
      train_logps.defined() && (data.evaluation == nullptr || evaluation_logps.defined());
  if (has_all) {
    progress.print("reference log-probabilities: from " + train.cache.string());
    auto objective = make(std::optional<Reference>());
    objective->use_precomputed(train_logps, evaluation_logps);
    return objective;
  }
  progress.print("reference log-probabilities: computing");
  // Before training, the policy itself is the reference; no second copy is needed.
  const bool is_policy = flags.ref_model.empty() && !trained.lora;
  auto objective = make(std::optional(is_policy ? Reference::current_policy(trained.model)
                                                : open_reference(flags, trained, world, progress)));
  if (!train_logps.defined()) {
    train_logps = precompute_reference(*objective, *data.train, train, world.world());
  }
  if (data.evaluation != nullptr && !evaluation_logps.defined()) {
    evaluation_logps =
        precompute_reference(*objective, *data.evaluation, evaluation, world.world());
  }
  objective->use_precomputed(train_logps, evaluation_logps);
  return objective;
}

std::vector<int64_t> reward_token_ids(const TrainingFlags& flags, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  for (const auto& token : flags.reward_tokens) {
    const auto id = tokenizer.id_of(token);
    TORCH_CHECK(id.has_value(), "--reward_tokens: the tokenizer has no token \"", token, "\"");
    ids.push_back(*id);
  }
  return ids;
}

KdOptions kd_options(const TrainingFlags& flags) {
  KdOptions options;
  options.divergence.kind = flags.divergence == "jsd" ? DivergenceOptions::Kind::Jensen
                                                      : DivergenceOptions::Kind::CrossEntropy;
  options.divergence.beta = flags.jsd_beta;
  options.divergence.temperature = flags.temperature;
  options.coefficient = flags.kd_coef;
  options.offload_teacher = flags.teacher_offload;
  return options;
}

std::shared_ptr<Model> open_teacher(const TrainingFlags& flags,
                                    const TrainingData& data,
                                    const RunWorld& world,
                                    ProgressLine& progress) {
  auto teacher = open_frozen_model(flags.teacher_model, HeadKind::CausalLm, flags, world, progress);
  TORCH_CHECK(data.tokenizer->size() <= teacher->config().vocabulary,
              "--teacher_model ",
              flags.teacher_model,
              ": has ",
              teacher->config().vocabulary,
              " tokens, fewer than the student's tokenizer (",
              data.tokenizer->size(),
              "): they must share it");
  return teacher;
}

}  // namespace

bool keeps_reference(const TrainingFlags& flags) {
  return flags.objective == Objective::Kto ||
         (flags.objective == Objective::Dpo && needs_reference(preference_options(flags)));
}

std::unique_ptr<TrainingObjective> make_objective(const TrainingFlags& flags,
                                                  const TrainedModel& trained,
                                                  const TrainingData& data,
                                                  const RunWorld& world,
                                                  ProgressLine& progress) {
  switch (flags.objective) {
    case Objective::Sft:
      return make_sft(trained.model, parse_sft_loss(flags.loss_type.front()));
    case Objective::Rm: {
      RmOptions options;
      options.loss.loss = parse_reward_loss(flags.loss_type.front());
      options.loss.centering = flags.center_rewards_coefficient;
      options.pooling = pooling_named(flags.pooling);
      options.use_margin = flags.use_margin && options.loss.loss == RewardLoss::LogSigmoid;
      name_pad_token(trained, data, options.pooling, progress);
      return make_rm(trained.model, options);
    }
    case Objective::Prm: {
      PrmOptions options;
      options.convention = flags.prm_convention == "placeholders" ? PrmConvention::Placeholders
                                                                  : PrmConvention::StepEnds;
      options.reward_tokens = reward_token_ids(flags, *data.tokenizer);
      return make_prm(trained.model, options);
    }
    case Objective::Dpo: {
      const auto options = preference_options(flags);
      const auto make = [&](std::optional<Reference> reference) {
        return make_dpo(trained.model, std::move(reference), options);
      };
      return needs_reference(options) ? with_reference(flags, trained, data, world, progress, make)
                                      : make(std::nullopt);
    }
    case Objective::Kto:
      return with_reference(
          flags, trained, data, world, progress, [&](std::optional<Reference> reference) {
            return make_kto(
                trained.model, std::move(reference), unpaired_options(flags), world.world());
          });
    case Objective::Kd:
      return make_kd(trained.model, open_teacher(flags, data, world, progress), kd_options(flags));
    case Objective::Grpo:
    case Objective::Ppo:
      break;  // run_online.cpp
  }
  TORCH_INTERNAL_ASSERT(false, "no such objective");
}

}  // namespace reprise::app
