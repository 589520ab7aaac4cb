#include "model/put_parameters.h"

#include "model/norm.h"
#include "model/weighted.h"

#include <c10/util/Exception.h>

namespace reprise {

namespace {

// set_data() does not lead from the meta device to another, and a module does not let its
// registered parameters be exchanged by others than itself.
struct OpenModule : torch::nn::Module {
  static auto& parameters_of(torch::nn::Module& module) {
    return module.*(&OpenModule::parameters_);
  }
};

// The module's own name for what is registered as `name`.
at::Tensor& member_of(torch::nn::Module& module, const std::string& name) {
  if (auto* weighted = module.as<Weighted>()) {
    return name == "weight" ? weighted->weight : weighted->bias;
  }
  auto* norm = module.as<Norm>();
  TORCH_INTERNAL_ASSERT(norm != nullptr, "a parameter ", name, " of another kind of module");
  return name == "weight" ? norm->weight : norm->bias;
}

}  // namespace

void put_parameters(Model& model, const std::map<std::string, at::Tensor>& values) {
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
