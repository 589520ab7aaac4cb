#include "reprise/training/setup/open_model.h"

#include "reprise/adapter_folder.h"
#include "reprise/model_options.h"
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/options/lora_config.h"
#include "reprise/training/options/quantization_options.h"
#include "reprise/training/options/role_checkpointing.h"
#include "reprise/training/setup/model_card.h"
#include "reprise/training/setup/trained_adapter.h"

#include <reprise/io/dtype.h>
#include <reprise/io/file.h>
#include <reprise/model/pretrained.h>
#include <reprise/model/quantization.h>
#include <reprise/report/units.h>

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

std::optional<at::ScalarType> dtype_of(const TrainingFlags& flags) {
  return flags.bf16 ? at::kFloat : chosen_dtype(flags.dtype);
}

LoadOptions load_options(const TrainingFlags& flags,
                         HeadKind head,
                         const RunWorld& world,
                         bool has_own_modules) {
  auto options = world.load_options(dtype_of(flags), !has_own_modules);
  options.head = head;
  options.part = other_part(flags);
  options.seed = flags.seed;
  if (head == HeadKind::Score) {
    options.labels = 1;
  }
  return options;
}

bool has_dropout(const Model& model, const std::optional<LoraConfig>& lora) {
  const ModelConfig& config = model.config();
  const bool has_classes = model.head() == HeadKind::TokenClasses;
  return config.embedding_dropout > 0 || config.attention_dropout > 0 ||
         config.residual_dropout > 0 || (has_classes && config.classifier_dropout > 0) ||
         (lora && lora->dropout > 0);
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) {
    try {
      if (std::regex_search(name, std::regex(pattern))) {
        return true;
      }
    } catch (const std::regex_error&) {
      TORCH_CHECK(false, "\"", pattern, "\" is not a regular expression");
    }
  }
  return false;
}

// A pattern that matches no trained parameter would have no effect.
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

// The regular expressions may match anywhere in a name.
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

void enable_checkpointing(Model& model, const CheckpointingRequest& request) {
  if (request.enabled) {
    model.enable_checkpointing(BlockChoice::parse(request.blocks), checkpoint_options(request));
  }
}

std::string size_text(const Model& model) {
  int64_t all = quantized_count(model);
  int64_t learning = 0;
  for (const auto& parameter : model.parameters()) {
    all += parameter.numel();
    learning += parameter.requires_grad() ? parameter.numel() : 0;
  }
  return human_count(static_cast<double>(all)) + " parameters, " +
         human_count(static_cast<double>(learning)) + " trained" +
         (model.config().quantization ? ", " + model.config().quantization->describe() : "");
}

// Adapters can be trained on quantised weights; the weights cannot.
void check_trainable(const Model& model, const std::string& folder, const char* flag) {
  TORCH_CHECK(!is_quantized(model) || has_lora(model),
              folder,
              ": is quantised (",
              model.config().quantization ? model.config().quantization->describe() : "",
              "), and quantised weights cannot be trained, only adapters on them: give ",
              flag,
              " too");
}

void refuse_float16(const Model& model, const std::string& folder, const TrainingFlags& flags) {
  TORCH_CHECK(dtype_of(flags).value_or(model.dtype()) != at::kHalf,
              folder,
              ": is stored as float16, which training would need loss scaling for. Give --bf16 "
              "(weights in float32) or --dtype bfloat16");
}

// A sharded model may not have all parameters here, so they are counted before.
void shard_and_print(const TrainedModel& trained,
                     const TrainingFlags& flags,
                     const RunWorld& world,
                     ProgressLine& progress) {
  const std::string size = size_text(*trained.model);
  world.shard_trained(*trained.model, dtype_of(flags));
  progress.print(trained.source + ": " + size + ", " + dtype_name(trained.model->dtype()) + " on " +
                 trained.model->device().str());
}

// Whether new adapters begin with what is computed of the base weights.
bool reads_weights(const LoraConfig& lora) {
  return lora.use_dora || lora.init.is_decomposition();
}

// Whether the model has modules besides its own: modules that LoRA trains fully, among them heads
// other than a language model's, the copy of an adapter that is the reference, and adapters that
// begin with what they compute of the weights. Such a model is loaded whole onto its device.
bool has_own_modules(const TrainingFlags& flags, HeadKind head, bool keeps_reference) {
  if (!flags.use_peft && flags.adapter.empty()) {
    return false;
  }
  return reads_weights(lora_config(flags, flags.model)) ||
         (keeps_reference && !flags.adapter.empty()) || head != HeadKind::CausalLm ||
         !flags.lora_modules_to_save.empty() ||
         (!flags.adapter.empty() && !LoraConfig::read(flags.adapter).modules_to_save.empty());
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

ModelPart trained_part(const TrainingFlags& flags) {
  return flags.text_only ? ModelPart::Text : ModelPart::Whole;
}

ModelPart other_part(const TrainingFlags& flags) {
  return flags.text_only ? ModelPart::TextIfMixed : ModelPart::Whole;
}

TrainedModel open_trained_model(const TrainingFlags& flags,
                                bool keeps_reference,
                                const RunWorld& world,
                                ProgressLine& progress) {
  TrainedModel trained;
  trained.source = flags.model;
  world.check_same_model(flags.model);
  if (!flags.adapter.empty()) {
    world.check_same_model(flags.adapter);
  }
  world.world().run_on_all("opening " + flags.model, [&] {
    const HeadKind head = head_of(flags);
    auto options = load_options(flags, head, world, has_own_modules(flags, head, keeps_reference));
    options.part = trained_part(flags);
    options.quantization = quantization_options(flags);
    trained.model = load(flags.model, options, progress);
    trained.model->compute_head_in_float32(flags.cast_lm_head_to_fp32);
    trained.model->add_embedding_noise(flags.neftune_noise_alpha);
    trained.lora = add_adapters(*trained.model, flags, keeps_reference);
    refuse_float16(*trained.model, flags.model, flags);
    check_trainable(*trained.model, flags.model, "--lora_r 16");
    freeze_parameters(*trained.model, flags);
    const bool is_float32 = trained.model->dtype() == at::kFloat && !flags.bf16;
    // The critic of ppo may have dropout where the policy has none.
    const bool may_have_dropout = flags.objective == Objective::Ppo;
    check_model_effects(
        flags,
        {.has_dropout = may_have_dropout || has_dropout(*trained.model, trained.lora),
         .is_all_float32 = is_float32});
  });
  if (trained.lora && reads_weights(*trained.lora)) {
    world.check_same_start(*trained.model);
  }
  if (!flags.adapter.empty()) {
    progress.print(flags.adapter + ": a LoRA adapter of " + flags.model +
                   ", which is trained further" +
                   (keeps_reference ? "; as it is now, it is the reference" : ""));
  }
  trained.tokenizer = tokenizer_folder(ModelFolders{flags.model, flags.adapter});
  if (!flags.chat_template.empty()) {
    trained.chat_template = read_file(flags.chat_template);  // now: it may change during the run
  }
  trained.card = model_card(flags, flags.model, trained.lora ? CardOf::Adapter : CardOf::Model);
  enable_checkpointing(*trained.model, checkpointing_request(flags, Role::Actor));
  shard_and_print(trained, flags, world, progress);
  return trained;
}

TrainedModel open_critic(const std::string& folder,
                         const TrainingFlags& flags,
                         const RunWorld& world,
                         ProgressLine& progress) {
  TrainedModel critic;
  critic.source = folder;
  world.check_same_model(folder);
  world.world().run_on_all("opening " + folder, [&] {
    critic.model =
        load(folder, load_options(flags, HeadKind::Value, world, flags.critic_use_peft), progress);
    if (flags.critic_use_peft) {
      critic.lora = lora_config(flags, folder);
      add_lora(*critic.model, *critic.lora, flags.seed);
    }
    refuse_float16(*critic.model, folder, flags);
    check_trainable(*critic.model, folder, "--critic_use_peft");
  });
  if (critic.lora && reads_weights(*critic.lora)) {
    world.check_same_start(*critic.model);
  }
  critic.tokenizer = folder;
  critic.card = model_card(flags, folder, critic.lora ? CardOf::Adapter : CardOf::Model);
  enable_checkpointing(*critic.model, checkpointing_request(flags, Role::Critic));
  shard_and_print(critic, flags, world, progress);
  return critic;
}

std::shared_ptr<Model> open_frozen_model(const std::string& folder,
                                         HeadKind head,
                                         const TrainingFlags& flags,
                                         const RunWorld& world,
                                         ProgressLine& progress) {
  std::shared_ptr<Model> model;
  const auto folders = model_folders({folder, ""}, "");
  const bool has_adapter = !folders.adapter.empty();
  world.check_same_model(folders.model);
  world.check_same_model(folder);
  world.world().run_on_all("opening " + folder, [&] {
    model = load(folders.model, load_options(flags, head, world, has_adapter), progress);
    if (has_adapter) {
      load_adapter(*model, folders.adapter);
      if (!is_quantized(*model)) {
        merge_lora(*model);
      }
    }
  });
  model->compute_head_in_float32(flags.cast_lm_head_to_fp32);
  for (auto& parameter : model->parameters()) {
    parameter.requires_grad_(false);  // before sharding: frozen parameters have no gradients to sum
  }
  world.shard_frozen(*model, dtype_of(flags));
  return model;
}

}  // namespace reprise::app
