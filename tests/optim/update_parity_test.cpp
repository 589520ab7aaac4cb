// Ten steps of every optimizer, against torch.optim, transformers' Adafactor and bitsandbytes'
// Lion: parameters, state and counts of steps.
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
  static const std::map<std::string, MuonRate> rates = {
      {"match_rms_adamw", MuonRate::MatchRmsAdamW},
      {"original", MuonRate::Original},
      {"spectral_unclamped", MuonRate::SpectralUnclamped}};
  OptimizerOptions options;
  options.kind = parse_optimizer(settings.at("kind").get<std::string>());
  options.muon_rate = rates.at(settings.value("adjust_lr_fn", "match_rms_adamw"));
  options.scale_parameter = settings.value("scale_parameter", false);
  options.relative_step = settings.value("relative_step", false);
  options.warmup_init = settings.value("warmup_init", false);
  options.beta1 = settings.value("beta1", options.beta1);
  options.beta2 = settings.value("beta2", options.beta2);
  options.epsilon = settings.value("epsilon", options.epsilon);
  options.weight_decay = settings.value("weight_decay", options.weight_decay);
  if (settings.contains("momentum")) {
    options.momentum = settings.at("momentum").get<double>();
  }
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
  // a sum, and a GPU divides otherwise. For bfloat16, one unit in the last place. Adafactor's sums
  // and means are in another order, and Muon multiplies in bfloat16.
  void expect_close(const at::Tensor& found, const std::string& name) const {
    const at::Tensor expected = file_.tensor(name);
    ASSERT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    const double rtol = expected.scalar_type() == at::kBFloat16 ? 0.004
                        : name.starts_with("adafactor")         ? 1e-5
                                                                : 1e-6;
    const double atol = name.starts_with("muon") ? 1e-3 : found.is_cpu() ? 1e-7 : 1e-6;
    EXPECT_TRUE(at::allclose(found.detach().cpu(), expected, rtol, atol))
        << name << ": " << bitwise_equal(found, expected).message();
  }

  ExpectedFile file_{"updates"};
};

TEST_F(UpdateParity, EqualsTheReferenceInEveryCase) {
  const Json cases = file_.fact("settings");
  ASSERT_EQ(cases.size(), 20U);
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
        // Not all of them count steps in a tensor, and none keeps copies.
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
      const bool counts = name.starts_with("adamw") || name.starts_with("rmsprop");
      EXPECT_TRUE(file_.has(name + "/" + state) || (!counts && state.ends_with("/step")))
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
