// Adapters in a model: adding them, finding them, and which parameters are trained with them.
#include <reprise/model/lora.h>

#include "model/lora/lora_init.h"
#include "model/lora/lora_plan.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace reprise {

namespace {

constexpr const char* kPrefix = "base_model.model.";

// From a parameter's name in named_parameters() to its name in an adapter's file.
std::string saved_name(const std::string& name) {
  constexpr std::string_view kBranch = ".lora.";
  const size_t end = name.rfind(kBranch);
  if (end == std::string::npos) {
    return kPrefix + name;
  }
  const std::string_view parameter = std::string_view(name).substr(end + kBranch.size());
  return adapter_name(name.substr(0, end),
                      parameter == "A"   ? kMatrixA
                      : parameter == "B" ? kMatrixB
                                         : kMagnitude);
}

}  // namespace

std::string adapter_name(const std::string& path, const std::string& end) {
  return kPrefix + path + "." + end;
}

bool has_lora(const Model& model) {
  const auto modules = model.modules(/*include_self=*/false);
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    return module->template as<LoraBranch>() != nullptr;
  });
}

void require_no_lora(const Model& model) {
  TORCH_CHECK(!has_lora(model),
              "[lora] the model has adapters already: merge them (merge_lora) before others are "
              "added.");
}

void install(Model& model, const LoraPlan& plan, const LoraConfig& config, Freezing freezing) {
  std::vector<std::shared_ptr<LoraBranch>> branches;
  branches.reserve(plan.targets.size());
  for (const auto& target : plan.targets) {
    const auto& shape = target.module->shape();
    branches.push_back(std::make_shared<LoraBranch>(
        LoraBranch::Shape{shape.in, shape.out, target.rank, config.use_dora},
        target.scale,
        config.dropout,
        target.module->options().dtype(config.dtype.value_or(at::kFloat))));
  }
  const bool is_trained = freezing == Freezing::TrainAdapters;
  if (is_trained) {
    for (auto& parameter : model.parameters()) {
      parameter.requires_grad_(false);
    }
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    for (auto& parameter : branches[i]->parameters()) {
      parameter.requires_grad_(is_trained);
    }
    branches[i]->train(model.is_training());
    plan.targets[i].module->set_branch(branches[i]);
  }
  for (const auto& saved : plan.saved) {
    saved.module->keep_original();
    if (is_trained) {
      for (auto& parameter : saved.module->parameters()) {
        parameter.requires_grad_(true);
      }
    }
  }
}

NamedTensors adapter_tensors(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* linear = item.value()->as<Linear>();
    if (linear != nullptr && linear->branch() != nullptr) {
      const auto& branch = *linear->branch();
      tensors.emplace_back(adapter_name(item.key(), kMatrixA), branch.a);
      tensors.emplace_back(adapter_name(item.key(), kMatrixB), branch.b);
      if (branch.is_dora()) {
        tensors.emplace_back(adapter_name(item.key(), kMagnitude), branch.magnitude);
      }
      continue;
    }
    const auto* layer = item.value()->as<WeightAndBias>();
    if (layer != nullptr && layer->has_original()) {
      for (const auto& parameter : layer->named_parameters()) {
        tensors.emplace_back(adapter_name(item.key(), parameter.key()), parameter.value());
      }
    }
  }
  return tensors;
}

std::vector<std::string> add_lora(Model& model, const LoraConfig& config, uint64_t seed) {
  require_no_lora(model);
  const LoraConfig complete = with_head(model, with_task(model, config));
  const LoraPlan plan = plan_lora(model, complete, UnmatchedName::Error);
  check_initialization(plan, complete);
  install(model, plan, complete, Freezing::TrainAdapters);
  const at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<std::string> paths;
  paths.reserve(plan.targets.size());
  for (const auto& target : plan.targets) {
    initialize(target, complete.init, generator);
    paths.push_back(target.path);
  }
  return paths;
}

NamedTensors trained_parameters(const Model& model) {
  const bool is_adapted = has_lora(model);
  NamedTensors trained;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) {
      trained.emplace_back(is_adapted ? saved_name(item.key()) : item.key(), item.value());
    }
  }
  return trained;
}

}  // namespace reprise
