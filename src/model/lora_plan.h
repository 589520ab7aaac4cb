// Which modules of a model a LoraConfig means, found out before anything is changed.
#pragma once

#include "model/linear.h"

#include <reprise/io/safetensors.h>
#include <reprise/model/lora.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// A projection that gets a branch.
struct LoraTarget {
  std::string path;
  std::shared_ptr<Linear> module;
  int64_t rank = 0;
  double scale = 0;
};

/// A module that is replaced by the adapter's own (modules_to_save).
struct SavedModule {
  std::string path;
  std::shared_ptr<Weighted> module;
};

struct LoraPlan {
  std::vector<LoraTarget> targets;
  std::vector<SavedModule> saved;
};

/// What a name in target_modules that matches nothing is.
enum class UnmatchedName : uint8_t {
  Error,    ///< a mistake of whoever wrote it
  Allowed,  ///< usual in files: lists for several families
};

/// Throws if nothing is targeted, or something that cannot be: see model/lora.h.
LoraPlan plan_lora(const Model& model, const LoraConfig& config, UnmatchedName unmatched);

/// `config` with its task_type, by the model's head. Throws if it has another one.
LoraConfig with_task(const Model& model, LoraConfig config);
/// `config` with the head among modules_to_save, unless that is a language model's.
LoraConfig with_head(const Model& model, LoraConfig config);

/// Whether weights are stored (in, out), which peft calls fan_in_fan_out.
bool has_in_out_weights(const std::vector<LoraTarget>& targets);

/// Whether an entry of modules_to_save means the module at this path.
bool is_saved(const LoraConfig& config, const std::string& path);

/// The adapters' tensors, by the names that peft saves them under.
NamedTensors adapter_tensors(const Model& model);
/// A tensor's name in an adapter's file: `path`'s `end`, e.g. "lora_A.weight".
std::string adapter_name(const std::string& path, const std::string& end);

void require_no_lora(const Model& model);

enum class Freezing : uint8_t { TrainAdapters, AsItWas };

/// Puts branches (holding nothing yet) and copies of saved modules in their places.
void install(
    Model& model, const LoraPlan& plan, double dropout, at::ScalarType dtype, Freezing freezing);

}  // namespace reprise
