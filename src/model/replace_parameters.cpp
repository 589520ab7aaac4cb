#include "model/replace_parameters.h"

#include "model/layers/norm.h"
#include "model/layers/weight_and_bias.h"

#include <c10/util/Exception.h>

namespace reprise {

namespace {

// set_data() cannot change the device from meta to another, and only a module itself can replace
// its registered parameters.
struct OpenModule : torch::nn::Module {
  static auto& parameters_of(torch::nn::Module& module) {
    return module.*(&OpenModule::parameters_);
  }
};

// The member variable of the parameter that is registered as `name`.
at::Tensor& member_of(torch::nn::Module& module, const std::string& name) {
  if (auto* layer = module.as<WeightAndBias>()) {
    return name == "weight" ? layer->weight : layer->bias;
  }
  auto* norm = module.as<Norm>();
  TORCH_INTERNAL_ASSERT(norm != nullptr, "a parameter ", name, " of another kind of module");
  return name == "weight" ? norm->weight : norm->bias;
}

}  // namespace

void replace_parameters(Model& model, const std::map<std::string, at::Tensor>& values) {
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    for (auto& parameter : OpenModule::parameters_of(*item.value())) {
      const auto found = values.find(item.key() + "." + parameter.key());
      if (found != values.end()) {
        parameter.value() = found->second.detach().requires_grad_();
        member_of(*item.value(), parameter.key()) = parameter.value();
      }
    }
  }
}

}  // namespace reprise
