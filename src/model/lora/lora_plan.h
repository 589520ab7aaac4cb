// Finds the modules of a model that a LoraConfig names, before anything is changed.
#pragma once

#include "model/layers/linear.h"

#include <reprise/io/safetensors.h>
#include <reprise/model/lora.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// A linear layer that gets a LoRA branch.
struct LoraTarget {
  std::string path;
  std::shared_ptr<Linear> module;
  int64_t rank = 0;
  double scale = 0;
};

/// A module that is trained as a whole (modules_to_save).
struct SavedModule {
  std::string path;
  std::shared_ptr<WeightAndBias> module;
};

struct LoraPlan {
  std::vector<LoraTarget> targets;
  std::vector<SavedModule> saved;
};

/// How to treat a name in target_modules that matches no module.
enum class UnmatchedName : uint8_t {
  Error,    ///< the user made a mistake
  Allowed,  ///< common in files, whose lists are often for several families
};

/// Throws if the config matches no linear layer, or a module that cannot be adapted.
LoraPlan plan_lora(const Model& model, const LoraConfig& config, UnmatchedName unmatched);

/// `config` with the task_type of the model's head. Throws if it has another one.
LoraConfig with_task(const Model& model, LoraConfig config);
/// `config` with the head in modules_to_save, unless it is a language-model head.
LoraConfig with_head(const Model& model, LoraConfig config);

/// Whether weights are stored (in, out), which peft calls fan_in_fan_out.
bool has_in_out_weights(const std::vector<LoraTarget>& targets);

/// Whether an entry of modules_to_save matches this path.
bool is_saved(const LoraConfig& config, const std::string& path);

/// The adapters' tensors with their names in peft's files.
NamedTensors adapter_tensors(const Model& model);
inline constexpr const char* kMatrixA = "lora_A.weight";
inline constexpr const char* kMatrixB = "lora_B.weight";
inline constexpr const char* kMagnitude = "lora_magnitude_vector";
/// The name in peft's files of the tensor `end`, such as kMatrixA, of the module at `path`.
std::string adapter_name(const std::string& path, const std::string& end);

/// Throws if the model has adapters.
void require_no_lora(const Model& model);

enum class Freezing : uint8_t {
  TrainAdapters,  ///< only adapters and saved modules require gradients
  AsItWas,        ///< the base model stays as it is; adapters require none
};

/// Adds uninitialised branches to the targets, and keeps the originals of saved modules.
void install(Model& model, const LoraPlan& plan, const LoraConfig& config, Freezing freezing);

}  // namespace reprise
