// Adapters in a model: adding them, finding them, and which parameters are trained with them.
#include <reprise/model/lora.h>

#include "model/lora/lora_plan.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {

namespace {

constexpr const char* kPrefix = "base_model.model.";

// From a parameter's name in named_parameters() to its name in an adapter's file.
std::string saved_name(const std::string& name) {
  for (const char* matrix : {"A", "B"}) {
    const std::string end = std::string(".lora.") + matrix;
    if (name.ends_with(end)) {
      return adapter_name(name.substr(0, name.size() - end.size()),
                          std::string("lora_") + matrix + ".weight");
    }
  }
  return kPrefix + name;
}

// Initialises A like the weight of a torch.nn.Linear, as peft does, and B with zeros. Drawn on the
// CPU in float32, so that a seed gives the same values on every device.
void draw(LoraBranch& branch, at::Generator& generator) {
  if (branch.a.is_meta()) {
    return;  // a plan needs no values
  }
  const double bound = 1 / std::sqrt(static_cast<double>(branch.a.size(1)));
  branch.a.copy_(at::empty(branch.a.sizes(), at::kFloat).uniform_(-bound, bound, generator));
  branch.b.zero_();
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

void install(
    Model& model, const LoraPlan& plan, double dropout, at::ScalarType dtype, Freezing freezing) {
  std::vector<std::shared_ptr<LoraBranch>> branches;
  branches.reserve(plan.targets.size());
  for (const auto& target : plan.targets) {
    const auto& shape = target.module->shape();
    branches.push_back(
        std::make_shared<LoraBranch>(LoraBranch::Shape{shape.in, shape.out, target.rank},
                                     target.scale,
                                     dropout,
                                     target.module->options().dtype(dtype)));
  }
  const bool is_trained = freezing == Freezing::TrainAdapters;
  if (is_trained) {
    for (auto& parameter : model.parameters()) {
      parameter.requires_grad_(false);
    }
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    branches[i]->a.requires_grad_(is_trained);
    branches[i]->b.requires_grad_(is_trained);
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
      tensors.emplace_back(adapter_name(item.key(), "lora_A.weight"), linear->branch()->a);
      tensors.emplace_back(adapter_name(item.key(), "lora_B.weight"), linear->branch()->b);
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
  const auto dtype = config.dtype.value_or(at::kFloat);
  install(model, plan, complete.dropout, dtype, Freezing::TrainAdapters);
  const at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<std::string> paths;
  paths.reserve(plan.targets.size());
  for (const auto& target : plan.targets) {
    draw(*target.module->branch(), generator);
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
