// Loads adapters that peft or save_adapter wrote. The whole file is checked against the model
// before the model is changed.
#include <reprise/model/lora.h>

#include "model/lora/lora_plan.h"

#include <reprise/io/tensor_file.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <string_view>
#include <utility>

namespace reprise {

namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

Shapes expected_shapes(const LoraPlan& plan, const LoraConfig& config) {
  Shapes shapes;
  for (const auto& target : plan.targets) {
    const auto& shape = target.module->shape();
    shapes[adapter_name(target.path, kMatrixA)] = {target.rank, shape.in};
    shapes[adapter_name(target.path, kMatrixB)] = {shape.out, target.rank};
    if (config.use_dora) {
      shapes[adapter_name(target.path, kMagnitude)] = {shape.out};
    }
  }
  for (const auto& saved : plan.saved) {
    for (const auto& parameter : saved.module->named_parameters()) {
      shapes[adapter_name(saved.path, parameter.key())] = parameter.value().sizes().vec();
    }
  }
  return shapes;
}

// peft also stores base weights that may have changed: those of an adapted embedding or head
// (…base_layer.weight), or of a vocabulary that was resized. They are accepted if they equal the
// base model's.
bool repeats_the_base(const TensorFile& file, const TensorInfo& info, const Model& model) {
  constexpr std::string_view kPrefix = "base_model.model.", kWrapped = ".base_layer.weight";
  if (!info.name.starts_with(kPrefix)) {
    return false;
  }
  std::string name = info.name.substr(kPrefix.size());
  if (name.ends_with(kWrapped)) {
    name.replace(name.size() - kWrapped.size(), kWrapped.size(), ".weight");
  }
  const auto parameters = model.named_parameters();
  const auto* base = parameters.find(name);
  return base != nullptr && base->sizes() == info.shape &&
         at::equal(base->detach().to(at::kCPU), file.view(info).to(base->scalar_type()));
}

void check_tensors(const TensorFile& file, const Shapes& expected, const Model& model) {
  const std::string source = file.path().string();
  for (const auto& [name, shape] : expected) {
    const TensorInfo* info = file.find(name);
    TORCH_CHECK(info != nullptr,
                "[lora] ",
                source,
                ": the tensor ",
                name,
                " is missing, which adapter_config.json and the model ask for.");
    TORCH_CHECK(info->shape == shape,
                "[lora] ",
                source,
                ": tensor ",
                name,
                ": expected the shape ",
                c10::IntArrayRef(shape),
                ", found ",
                c10::IntArrayRef(info->shape));
    TORCH_CHECK(at::isFloatingType(info->dtype),
                "[lora] ",
                source,
                ": tensor ",
                name,
                ": expected floating point numbers, found ",
                c10::toString(info->dtype));
  }
  for (const auto& info : file.tensors()) {
    TORCH_CHECK(expected.contains(info.name) || repeats_the_base(file, info, model),
                "[lora] ",
                source,
                ": the tensor ",
                info.name,
                " is not expected: the model has no such module, adapter_config.json does not name "
                "it, or it is a weight of another base model than this one.");
  }
}

// peft writes safetensors; before 2023, and where it is asked to, a file of torch.save.
TensorFile open_tensors(const std::filesystem::path& folder) {
  const auto safe = folder / "adapter_model.safetensors", pickled = folder / "adapter_model.bin";
  return TensorFile(std::filesystem::exists(safe) || !std::filesystem::exists(pickled) ? safe
                                                                                       : pickled);
}

// An adapter of a language model fits a model with any head: it adapts the layers below.
void forget_task_of_language_models(const Model& model, LoraConfig& config) {
  if (model.head() != HeadKind::CausalLm && config.task_type == "CAUSAL_LM") {
    config.task_type.clear();
  }
}

void keep_references(const LoraPlan& plan) {
  for (const auto& target : plan.targets) {
    target.module->keep_reference_branch();
  }
  for (const auto& saved : plan.saved) {
    saved.module->keep_reference();
  }
}

}  // namespace

LoraConfig load_adapter(Model& model,
                        const std::filesystem::path& folder,
                        const AdapterOptions& options) {
  require_no_lora(model);
  LoraConfig config = LoraConfig::read(folder);
  forget_task_of_language_models(model, config);
  config = with_task(model, std::move(config));
  LoraPlan plan = plan_lora(model, config, UnmatchedName::Allowed);
  const TensorFile file = open_tensors(folder);
  check_tensors(file, expected_shapes(plan, config), model);
  if (options.is_trainable) {
    config = with_head(model, std::move(config));
    plan = plan_lora(model, config, UnmatchedName::Allowed);
  }
  config.dtype = options.dtype.value_or(at::kFloat);
  install(model, plan, config, options.is_trainable ? Freezing::TrainAdapters : Freezing::AsItWas);
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : adapter_tensors(model)) {
    if (const TensorInfo* info = file.find(name)) {
      file.copy_to(*info, tensor);
    }
  }
  if (options.keep_reference) {
    keep_references(plan);
  }
  return config;
}

}  // namespace reprise
