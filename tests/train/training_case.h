// A run that tests/fixtures/training describes, on its tiny models, ready to be trained in-process.
#pragma once

#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"
#include "train/training_arguments.h"

#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>
#include <reprise/parallel/shard.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/dpo.h>
#include <reprise/train/kd.h>
#include <reprise/train/kto.h>
#include <reprise/train/precompute.h>
#include <reprise/train/prm.h>
#include <reprise/train/reference.h>
#include <reprise/train/rm.h>
#include <reprise/train/sft.h>
#include <reprise/train/trainer.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::testing {

inline std::filesystem::path training_fixtures() {
  return fixtures() / "training";
}

/// What the fixtures' own runs share. A test changes or adds keys (its README.md lists them).
inline Json plain_run(const std::string& data, const std::string& model, int64_t steps) {
  return {{"data", data},
          {"model", model},
          {"arguments",
           {{"max_steps", steps},
            {"per_device_train_batch_size", 4},
            {"learning_rate", 2e-3},
            {"max_grad_norm", 1.0},
            {"seed", 42}}}};
}

/// The usual run of an objective, by the name of its file of runs.
inline Json usual_run(const std::string& objective, int64_t steps) {
  static const std::map<std::string, std::pair<std::string, std::string>> names = {
      {"sft", {"sft_text", "policy"}},
      {"dpo", {"pairs", "policy"}},
      {"kto", {"unpaired", "policy"}},
      {"reward", {"reward", "score"}},
      {"prm", {"steps", "steps"}},
      {"kd", {"sft_completion", "policy"}}};
  const auto& [data, model] = names.at(objective);
  Json run = plain_run(data, model, steps);
  if (objective == "dpo" || objective == "kto") {
    run["reference"] = "reference";
  }
  if (objective == "kd") {
    run["teacher"] = "teacher";
    run["arguments"]["kd_coef"] = 0.4;
  }
  return run;
}

/// A run, with these keys of its own beside the fixtures': "lora": {"dropout"}, fresh adapters on
/// all projections; "quantize", "nf4" or "int8": the policy's base; "attention_dropout"; "dtype";
/// "eval_data".
class TrainingCase {
 public:
  /// The models of a case in a world are sharded over it.
  struct InWorld {
    const World& world;
    Parallel strategy;
  };

  TrainingCase(const std::string& objective_name,
               const Json& run,
               const TemporaryFolder& folder,
               std::optional<InWorld> in_world = {})
      : kind_(objective_named(objective_name)),
        run_(run),
        folder_(folder.path()),
        in_world_(in_world) {
    tokenizer = Tokenizer::open(training_fixtures() / "models" / "policy");
    model = open_policy();
    data = open_data(name_in("data"));
    if (has("eval_data")) {
      eval_data = open_data(name_in("eval_data"));
    }
    options = trainer_options(arguments());
    options.collate = collate_options(kind_, arguments(), tokenizer->special_tokens().pad.value());
    options.output = folder_ / "output";
    objective = make_objective();
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Model> model;
  std::shared_ptr<const Dataset> data, eval_data;
  std::unique_ptr<TrainingObjective> objective;
  TrainerOptions options;
  std::filesystem::path resume_from;

  TrainingSummary train(TrainingObserver& observer) { return train(*objective, observer); }
  TrainingSummary train(TrainingObjective& as, TrainingObserver& observer) {
    return reprise::train(
        {as, data, eval_data, [this](const auto& path) { save(path); }, resume_from},
        options,
        observer,
        in_world_ ? in_world_->world : World::single());
  }

  void save(const std::filesystem::path& path) const {
    if (has_lora(*model)) {
      save_adapter(*model, path, lora_);
    } else {
      save_model(*model, path);
    }
  }

  /// A dpo or kto.
  ReferencedObjective& referenced() const { return dynamic_cast<ReferencedObjective&>(*objective); }

 private:
  const Json& arguments() const { return run_.at("arguments"); }
  bool has(const char* key) const { return run_.contains(key) && !run_[key].is_null(); }
  std::string name_in(const char* key) const { return run_.at(key).get<std::string>(); }

  /// A model beside the policy. Those that are not trained are whole in every process but for fsdp.
  std::shared_ptr<Model> open_frozen(const std::string& name) const {
    auto opened = open(name);
    if (in_world_ && in_world_->strategy == Parallel::Fsdp) {
      for (auto& parameter : opened->parameters()) {
        parameter.requires_grad_(false);
      }
      shard(*opened, in_world_->world, {.strategy = Parallel::Fsdp});
    }
    return opened;
  }

  std::shared_ptr<Model> open(const std::string& name,
                              std::optional<QuantizationConfig> quantization = {}) const {
    LoadOptions load;
    load.quantization = std::move(quantization);
    load.head = kind_ == Objective::Rm    ? HeadKind::Score
                : kind_ == Objective::Prm ? HeadKind::TokenClasses
                                          : HeadKind::CausalLm;
    const auto dtype = run_.value("dtype", "float32");
    if (dtype != "float32") {
      load.dtype = dtype == "bfloat16" ? at::kBFloat16 : at::kDouble;
    }
    return load_model(training_fixtures() / "models" / name, load).model;
  }

  std::optional<QuantizationConfig> quantization() const {
    if (!has("quantize")) {
      return std::nullopt;
    }
    const bool is_int8 = name_in("quantize") == "int8";
    return QuantizationConfig{.scheme = {.format = is_int8 ? QuantFormat::Int8 : QuantFormat::Nf4,
                                         .double_quant = !is_int8}};
  }

  std::shared_ptr<Model> open_policy() {
    auto opened = open(name_in("model"), quantization());
    if (has("attention_dropout")) {
      opened = with_attention_dropout(*opened, run_["attention_dropout"].get<double>());
    }
    if (has("adapter")) {
      lora_ = load_adapter(
          *opened, training_fixtures() / "models" / name_in("adapter"), {.is_trainable = true});
    } else if (has("lora")) {
      lora_.rank = 4;
      lora_.dropout = run_["lora"].value("dropout", 0.0);
      add_lora(*opened, lora_, /*seed=*/3);
    }
    if (in_world_) {
      shard(*opened, in_world_->world, {.strategy = in_world_->strategy});
    }
    return opened;
  }

  static std::shared_ptr<Model> with_attention_dropout(const Model& from, double probability) {
    const torch::NoGradGuard no_grad;
    ModelConfig config = from.config();
    config.attention_dropout = probability;
    auto model = std::make_shared<Model>(config, from.head());
    const auto values = from.named_parameters();
    for (auto& item : model->named_parameters()) {
      item.value().copy_(values[item.key()]);
    }
    return model;
  }

  std::shared_ptr<const Dataset> open_data(const std::string& name) const {
    DatasetOptions files;
    files.files = {{training_fixtures() / "data" / (name + ".jsonl")}};
    files.cache = folder_ / "cache";
    files.tokenizer_key = "fixture";
    auto opened =
        open_dataset(RowTokenizer(tokenizer, row_options(kind_, arguments())), files).dataset;
    return is_packed(arguments())
               ? pack(opened, packing_of(arguments()), max_length_of(arguments()))
               : opened;
  }

  std::optional<Reference> reference_for(const PreferenceOptions& preference) const {
    return needs_reference(preference) ? std::optional(open_reference()) : std::nullopt;
  }

  Reference open_reference() const {
    if (has_lora(*model)) {
      return Reference::without_adapters(model);
    }
    std::optional<ReferenceSync> sync;
    if (arguments().value("sync_ref_model", false)) {
      sync = {arguments().at("ref_model_mixup_alpha"), arguments().at("ref_model_sync_steps")};
    }
    return Reference(open_frozen(has("reference") ? name_in("reference") : name_in("model")), sync);
  }

  std::unique_ptr<TrainingObjective> make_objective() const {
    switch (kind_) {
      case Objective::Sft:
        return make_sft(model, parse_sft_loss(arguments().value("loss_type", "nll")));
      case Objective::Dpo: {
        const auto preference = preference_options(arguments());
        return with_precomputed(make_dpo(model, reference_for(preference), preference));
      }
      case Objective::Kto:
        return with_precomputed(make_kto(model,
                                         open_reference(),
                                         unpaired_options(arguments()),
                                         in_world_ ? in_world_->world : World::single()));
      case Objective::Rm:
        return make_rm(model, rm_options(arguments()));
      case Objective::Prm:
        return make_prm(model);
      case Objective::Kd:
        return make_kd(model, open_frozen(name_in("teacher")), kd_options(arguments()));
      case Objective::Ppo:
      case Objective::Grpo:
        break;
    }
    TORCH_CHECK(false, "no such objective");
  }

  std::unique_ptr<TrainingObjective> with_precomputed(
      std::unique_ptr<ReferencedObjective> made) const {
    if (arguments().value("precompute_ref_log_probs", false)) {
      made->use_precomputed(
          precompute_reference(*made, *data, {options.collate, options.batch_size}), {});
    }
    return made;
  }

  Objective kind_;
  Json run_;
  std::filesystem::path folder_;
  std::optional<InWorld> in_world_;
  LoraConfig lora_;
};

}  // namespace reprise::testing
