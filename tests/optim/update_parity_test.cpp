// Ten steps of every optimizer, against torch.optim: parameters, state and counts of steps.
#include "optim/expected_file.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/tensors.h"

#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace reprise::testing {
namespace {

const std::vector<std::string> kParameters = {
    "layers.0.weight", "layers.0.bias", "norm.weight", "head.weight", "rare.weight"};

OptimizerOptions optimizer_options_of(const Json& settings) {
  static const std::map<std::string, OptimizerKind> kinds = {{"adamw", OptimizerKind::AdamW},
                                                             {"rmsprop", OptimizerKind::RmsProp},
                                                             {"sgd", OptimizerKind::Sgd}};
  OptimizerOptions options;
  options.kind = kinds.at(settings.at("kind").get<std::string>());
  options.beta1 = settings.value("beta1", options.beta1);
  options.beta2 = settings.value("beta2", options.beta2);
  options.epsilon = settings.value("epsilon", options.epsilon);
  options.weight_decay = settings.value("weight_decay", options.weight_decay);
  options.momentum = settings.value("momentum", options.momentum);
  options.alpha = settings.value("alpha", options.alpha);
  return options;
}

class UpdateParity : public ::testing::Test {
 protected:
  Optimizer::Parameters initial(at::ScalarType dtype, at::Device device) const {
    Optimizer::Parameters parameters;
    for (const auto& name : kParameters) {
      const at::Tensor value = file_.tensor("initial/" + name).clone().to(device, dtype);
      parameters.emplace_back(name, value.set_requires_grad(true));
    }
    return parameters;
  }

  void run(Optimizer& optimizer) const {
    const Json rates = file_.fact("learning_rates");
    for (size_t step = 0; step < rates.size(); ++step) {
      optimizer.zero_grad();
      for (const auto& [name, parameter] : optimizer.parameters()) {
        const std::string grad = "grad/" + std::to_string(step) + "/" + name;
        if (file_.has(grad)) {
          parameter.mutable_grad() = file_.tensor(grad).to(parameter.options()).clone();
        }
      }
      optimizer.step(rates[step].get<double>());
    }
  }

  // On the CPU that made the fixture this is bitwise; other instruction sets contract a product and
  // a sum, and a GPU divides otherwise. For bfloat16, one unit in the last place.
  void expect_close(const at::Tensor& found, const std::string& name) const {
    const at::Tensor expected = file_.tensor(name);
    ASSERT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    const double rtol = expected.scalar_type() == at::kBFloat16 ? 0.004 : 1e-6;
    const double atol = found.is_cpu() ? 1e-7 : 1e-6;
    EXPECT_TRUE(at::allclose(found.detach().cpu(), expected, rtol, atol))
        << name << ": " << bitwise_equal(found, expected).message();
  }

  ExpectedFile file_{"updates"};
};

TEST_F(UpdateParity, EqualsTorchInEveryCase) {
  const Json cases = file_.fact("settings");
  ASSERT_EQ(cases.size(), 10U);
  for (const auto& [name, settings] : cases.items()) {
    const bool is_16_bit = name.ends_with("_bfloat16");
    for (const auto device : devices()) {
      SCOPED_TRACE(name + " on " + c10::DeviceTypeName(device));
      const auto dtype = is_16_bit ? at::kBFloat16 : at::kFloat;
      const auto optimizer =
          Optimizer::make(initial(dtype, device), optimizer_options_of(settings));
      run(*optimizer);
      for (const auto& [parameter, value] : optimizer->parameters()) {
        expect_close(value, name + "/" + parameter);
      }
      for (const auto& [state, value] : optimizer->state()) {
        // torch's SGD counts no steps, and none of its optimizers keeps copies.
        if (file_.has(name + "/" + state)) {
          expect_close(value, name + "/" + state);
        }
      }
    }
  }
}

TEST_F(UpdateParity, NamesStateAsTorchDoes) {
  const Json cases = file_.fact("settings");
  for (const auto& [name, settings] : cases.items()) {
    const auto optimizer =
        Optimizer::make(initial(at::kFloat, at::kCPU), optimizer_options_of(settings));
    for (const auto& [state, value] : optimizer->state()) {
      EXPECT_TRUE(file_.has(name + "/" + state) || (name.starts_with("sgd") && value.dim() == 0))
          << name << "/" << state;
    }
  }
}

TEST_F(UpdateParity, CountsStepsOfAParameterNotOfTheOptimizer) {
  const auto optimizer = Optimizer::make(initial(at::kFloat, at::kCPU), {});
  run(*optimizer);
  std::map<std::string, at::Tensor> state;
  for (const auto& [name, value] : optimizer->state()) {
    state[name] = value;
  }
  EXPECT_EQ(state.at("head.weight/step").item<float>(), 10.F);
  EXPECT_EQ(state.at("rare.weight/step").item<float>(), 7.F);
}

}  // namespace
}  // namespace reprise::testing
