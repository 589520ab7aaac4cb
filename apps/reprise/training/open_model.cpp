#include "reprise/training/open_model.h"

#include "reprise/device.h"
#include "reprise/model_options.h"
#include "reprise/training/role_checkpointing.h"

#include <reprise/io/dtype.h>
#include <reprise/model/checkpoint.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <regex>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

HeadKind head_of(const TrainingFlags& flags) {
  switch (flags.objective) {
    case Objective::Rm:
      return HeadKind::Score;
    case Objective::Prm:
      return flags.prm_convention == "placeholders" ? HeadKind::CausalLm : HeadKind::TokenClasses;
    default:
      return HeadKind::CausalLm;
  }
}

LoadOptions load_options(const TrainingFlags& flags, HeadKind head) {
  LoadOptions options;
  options.head = head;
  options.dtype = flags.bf16 ? at::kFloat : chosen_dtype(flags.dtype);
  options.device = choose_device(flags.device);
  options.seed = flags.seed;
  if (head == HeadKind::Score) {
    options.labels = 1;
  }
  return options;
}

LoraConfig lora_config(const TrainingFlags& flags, const std::string& base_model) {
  LoraConfig config;
  config.rank = flags.lora_r;
  config.alpha = flags.lora_alpha;
  config.dropout = flags.lora_dropout;
  config.use_rslora = flags.use_rslora;
  if (flags.lora_target_modules != std::vector<std::string>{"all-linear"}) {
    config.targets = flags.lora_target_modules;
  }
  config.modules_to_save = flags.lora_modules_to_save;
  config.base_model = base_model;
  return config;
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) {
    try {
      if (std::regex_search(name, std::regex(pattern))) {
        return true;
      }
    } catch (const std::regex_error&) {
      TORCH_CHECK(false, "\"", pattern, "\" is no regular expression");
    }
  }
  return false;
}

// A pattern that matches nothing that would be trained has no effect.
void check_patterns(const Model& model,
                    const char* flag,
                    const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) {
    const auto parameters = model.named_parameters();
    const bool matches = std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
      return item.value().requires_grad() && matches_any(item.key(), {pattern});
    });
    TORCH_CHECK(matches,
                flag,
                " ",
                pattern,
                ": matches no parameter that is trained; names are like ",
                trained_parameters(model).front().first);
  }
}

// By name, with regular expressions that may match anywhere in it.
void freeze_parameters(Model& model, const TrainingFlags& flags) {
  if (flags.freeze.empty() && flags.train_only.empty()) {
    return;
  }
  check_patterns(model, "--freeze", flags.freeze);
  check_patterns(model, "--train_only", flags.train_only);
  int64_t trained = 0;
  for (auto& item : model.named_parameters()) {
    const bool stays = !item.value().requires_grad() || matches_any(item.key(), flags.freeze) ||
                       (!flags.train_only.empty() && !matches_any(item.key(), flags.train_only));
    item.value().requires_grad_(!stays);
    trained += stays ? 0 : 1;
  }
  TORCH_CHECK(trained > 0, "--freeze and --train_only leave no parameter to train");
}

CheckpointOptions checkpoint_options(const CheckpointingRequest& request) {
  if (request.policy == "planned") {
    return {};
  }
  auto options = checkpoint_options_named(request.policy);
  options.use_reentrant = request.use_reentrant;
  options.preserve_rng_state = request.preserve_rng_state;
  options.early_stop = request.early_stop;
  options.determinism_check = request.determinism_check == "none"     ? DeterminismCheck::None
                              : request.determinism_check == "values" ? DeterminismCheck::Values
                                                                      : DeterminismCheck::Metadata;
  return options;
}

// A score head finds a row's end by the pad id, so a model without one gets the tokenizer's.
void set_pad_id(Model& model, const TrainingFlags& flags, ProgressLine& progress) {
  const auto special = Tokenizer::open(flags.model)->special_tokens();
  const auto pad = special.pad ? special.pad : special.eos;
  TORCH_CHECK(pad.has_value(),
              flags.model,
              ": neither config.json nor the tokenizer names a pad or end token, by which rewards "
              "are found");
  model.set_pad_id(*pad);
  progress.print("config.json names no pad_token_id: it is now " + std::to_string(*pad));
}

void enable_checkpointing(Model& model, const CheckpointingRequest& request) {
  if (request.enabled) {
    model.enable_checkpointing(BlockChoice::parse(request.blocks), checkpoint_options(request));
  }
}

void print_size(const TrainedModel& trained, ProgressLine& progress) {
  int64_t all = 0;
  int64_t learning = 0;
  for (const auto& parameter : trained.model->parameters()) {
    all += parameter.numel();
    learning += parameter.requires_grad() ? parameter.numel() : 0;
  }
  progress.print(trained.source + ": " + human_count(static_cast<double>(all)) + " parameters, " +
                 human_count(static_cast<double>(learning)) + " trained, " +
                 dtype_name(trained.model->dtype()) + " on " + trained.model->device().str());
}

std::shared_ptr<Model> load(const std::string& folder,
                            const LoadOptions& options,
                            ProgressLine& progress) {
  auto loaded = load_model(folder, options);
  for (const auto& warning : loaded.warnings) {
    progress.print("warning: " + warning);
  }
  return loaded.model;
}

}  // namespace

TrainedModel open_trained_model(const TrainingFlags& flags,
                                bool keeps_reference,
                                ProgressLine& progress) {
  TrainedModel trained;
  trained.source = flags.model;
  trained.model = load(flags.model, load_options(flags, head_of(flags)), progress);
  trained.model->compute_head_in_float32(flags.cast_lm_head_to_fp32);
  if (flags.objective == Objective::Rm && !trained.model->config().pad_id) {
    set_pad_id(*trained.model, flags, progress);
  }
  trained.model->add_embedding_noise(flags.neftune_noise_alpha);
  if (!flags.adapter.empty()) {
    AdapterOptions options;
    options.is_trainable = true;
    options.keep_reference = keeps_reference;
    trained.lora = load_adapter(*trained.model, flags.adapter, options);
  } else if (flags.use_peft) {
    trained.lora = lora_config(flags, flags.model);
    add_lora(*trained.model, *trained.lora, flags.seed);
  }
  freeze_parameters(*trained.model, flags);
  enable_checkpointing(*trained.model, checkpointing_request(flags, Role::Actor));
  print_size(trained, progress);
  return trained;
}

TrainedModel open_critic(const std::string& folder,
                         const TrainingFlags& flags,
                         ProgressLine& progress) {
  TrainedModel critic;
  critic.source = folder;
  critic.model = load(folder, load_options(flags, HeadKind::Value), progress);
  if (flags.critic_use_peft) {
    critic.lora = lora_config(flags, folder);
    add_lora(*critic.model, *critic.lora, flags.seed);
  }
  enable_checkpointing(*critic.model, checkpointing_request(flags, Role::Critic));
  print_size(critic, progress);
  return critic;
}

std::shared_ptr<Model> open_frozen_model(const std::string& folder,
                                         HeadKind head,
                                         const TrainingFlags& flags,
                                         ProgressLine& progress) {
  auto model = load(folder, load_options(flags, head), progress);
  model->compute_head_in_float32(flags.cast_lm_head_to_fp32);
  return model;
}

void save_trained_model(const TrainedModel& trained, const std::filesystem::path& folder) {
  if (trained.lora) {
    save_adapter(*trained.model, folder, *trained.lora);
  } else {
    SaveOptions options;
    options.source = trained.source;
    save_model(*trained.model, folder, options);
  }
}

}  // namespace reprise::app
