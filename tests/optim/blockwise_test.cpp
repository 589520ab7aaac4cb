// 8-bit moments, against bitsandbytes on a CPU: bit for bit.
#include "optim/blockwise_map.h"
#include "optim/expected_file.h"
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

class Blockwise : public ::testing::Test {
 protected:
  Optimizer::Parameters initial(at::ScalarType dtype) const {
    Optimizer::Parameters parameters;
    for (const char* name : {"layers.0.weight", "layers.0.bias", "norm.weight"}) {
      const at::Tensor value = file_.tensor(std::string("initial/") + name).to(dtype).clone();
      parameters.emplace_back(name, value.set_requires_grad(true));
    }
    return parameters;
  }

  void run(Optimizer& optimizer) const {
    const Json rates = file_.fact("learning_rates");
    for (size_t step = 0; step < rates.size(); ++step) {
      for (const auto& [name, parameter] : optimizer.parameters()) {
        const at::Tensor grad = file_.tensor("grad/" + std::to_string(step) + "/" + name);
        parameter.mutable_grad() = grad.to(parameter.scalar_type());
      }
      optimizer.step(rates[step].get<double>());
    }
  }

  static OptimizerOptions options_of(const Json& settings) {
    OptimizerOptions options;
    options.kind = OptimizerKind::AdamW8bit;
    options.beta1 = settings.value("beta1", options.beta1);
    options.beta2 = settings.value("beta2", options.beta2);
    options.epsilon = settings.value("epsilon", options.epsilon);
    options.weight_decay = settings.value("weight_decay", options.weight_decay);
    return options;
  }

  ExpectedFile file_{"blockwise"};
};

TEST_F(Blockwise, EncodesAndDecodesAsBitsandbytes) {
  for (const std::string name : {"signed", "unsigned"}) {
    const BlockwiseMap map(name == "signed", at::kCPU);
    const at::Tensor values = file_.tensor("values/" + name).clone();
    const at::Tensor codes = at::empty({values.numel()}, at::kByte);
    const at::Tensor maxima = at::empty({BlockwiseMap::blocks_of(values.numel())});
    map.encode(values, codes, maxima);
    EXPECT_TRUE(bitwise_equal(codes, file_.tensor("codes/" + name))) << name;
    EXPECT_TRUE(bitwise_equal(maxima, file_.tensor("absmax/" + name))) << name;
    EXPECT_TRUE(bitwise_equal(map.decode(codes, maxima), file_.tensor("decoded/" + name))) << name;
  }
}

TEST_F(Blockwise, HasTheValuesOfTheDynamicMaps) {
  for (const std::string name : {"signed", "unsigned"}) {
    const BlockwiseMap map(name == "signed", at::kCPU);
    const at::Tensor every = at::arange(256, at::kByte);
    EXPECT_TRUE(bitwise_equal(map.decode(every, at::ones({1})), file_.tensor("map/" + name)));
  }
}

TEST_F(Blockwise, UpdatesAsBitsandbytes) {
  const Json cases = file_.fact("settings");
  ASSERT_EQ(cases.size(), 3U);
  for (const auto& [name, settings] : cases.items()) {
    const bool is_16_bit = name.ends_with("_bfloat16");
    const auto optimizer =
        Optimizer::make(initial(is_16_bit ? at::kBFloat16 : at::kFloat), options_of(settings));
    run(*optimizer);
    for (const auto& [state, value] : optimizer->state()) {
      if (!state.ends_with("/step")) {
        EXPECT_TRUE(bitwise_equal(value, file_.tensor(name + "/" + state))) << name << "/" << state;
      }
    }
    for (const auto& [parameter, value] : optimizer->parameters()) {
      const at::Tensor expected = file_.tensor(name + "/" + parameter);
      if (is_16_bit) {  // bitsandbytes rounds to nearest: apart by some units in the last place
        EXPECT_TRUE(
            at::allclose(value.detach().to(at::kFloat), expected.to(at::kFloat), 0.05, 2e-3))
            << name << "/" << parameter;
      } else {
        EXPECT_TRUE(bitwise_equal(value, expected)) << name << "/" << parameter;
      }
    }
  }
}

TEST_F(Blockwise, KeepsAByteForAMomentAndFloat32OfSmallParameters) {
  const auto optimizer =
      Optimizer::make(initial(at::kBFloat16), {.kind = OptimizerKind::AdamW8bit});
  constexpr int64_t kWeight = 9 * 457, kBlocks = (kWeight + 255) / 256;
  constexpr int64_t kSmall = 457 + 17, kSteps = 3;
  EXPECT_EQ(optimizer->bytes(), 2 * (kWeight + 4 * kBlocks) + 2 * 4 * kSmall + 4 * kSteps);
}

TEST_F(Blockwise, RefusesTheStateOfOtherMoments) {
  const TemporaryFolder folder;
  const auto make = [&](OptimizerKind kind) {
    return Optimizer::make(initial(at::kFloat), {.kind = kind});
  };
  const auto kinds = {OptimizerKind::AdamW, OptimizerKind::AdamW8bit, OptimizerKind::AdamWBf16};
  for (const auto saved : kinds) {
    write_safetensors(folder / "state", make(saved)->state());
    for (const auto loaded : kinds) {
      if (loaded != saved) {
        expect_error([&] { make(loaded)->load(TensorFile(folder / "state")); },
                     "resume with the same `optim` and `dtype`, or begin a new run");
      }
    }
  }
}

std::vector<TensorPart> cut(const at::Tensor& parameter, const at::Tensor& grad, int64_t at) {
  const auto part = [&](int64_t begin, int64_t end) {
    at::Tensor values = parameter.view({-1}).slice(0, begin, end).clone();
    values.mutable_grad() = grad.view({-1}).slice(0, begin, end).clone();
    return TensorPart{"w", parameter.sizes().vec(), begin, values};
  };
  return {part(0, at), part(at, parameter.numel())};
}

/// What all parts of a parameter are after two steps, and their state.
std::vector<at::Tensor> stepped(std::vector<TensorPart> parts, const OptimizerOptions& options) {
  std::vector<at::Tensor> results;
  for (const TensorPart& part : parts) {
    const auto optimizer = Optimizer::make({part}, options);
    optimizer->step(0.01);
    optimizer->step(0.02);
    results.push_back(part.values);
    for (const TensorPart& state : optimizer->state_parts()) {
      results.push_back(state.values);
    }
  }
  return results;
}

// More elements than one slice of an update.
TEST(CompactAdamW, IsTheSameHoweverAParameterIsCut) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // how work is shared out changes which elements end a vector
  torch::manual_seed(1);
  const at::Tensor parameter = torch::randn({(int64_t{1} << 22) + 1003}).to(at::kBFloat16);
  const at::Tensor grad = torch::randn_like(parameter);
  for (const auto kind : {OptimizerKind::AdamW8bit, OptimizerKind::AdamWBf16}) {
    SCOPED_TRACE(name_of(kind));
    const OptimizerOptions options = {.kind = kind, .weight_decay = 0.1, .seed = 9};
    const auto whole = stepped({cut(parameter, grad, parameter.numel())[0]}, options);
    const auto parts = stepped(cut(parameter, grad, (int64_t{1} << 21) + 256), options);
    ASSERT_EQ(parts.size(), 2 * whole.size());
    for (size_t i = 0; i + 1 < whole.size(); ++i) {
      const at::Tensor joined = at::cat({parts[i], parts[whole.size() + i]});
      EXPECT_TRUE(bitwise_equal(joined, whole[i])) << i;
    }
  }
  at::set_num_threads(threads);
}

TEST(CompactAdamW, RefusesWhatItCannotUpdate) {
  const at::Tensor parameter = torch::zeros({64, 128});
  const auto make = [](const TensorPart& part, OptimizerKind kind) {
    return [=] { Optimizer::make({part}, {.kind = kind}); };
  };
  const TensorPart inside{"w", {64, 128}, 100, parameter.view({-1}).slice(0, 100, 356)};
  expect_error(make(inside, OptimizerKind::AdamW8bit),
               "parameter \"w\": expected a part of whole blocks of 256 elements, got the elements "
               "100 to 356");
  for (const auto kind : {OptimizerKind::AdamW8bit, OptimizerKind::AdamWBf16}) {
    const TensorPart half{"w", {8}, 0, torch::zeros({8}, at::kHalf)};
    expect_error(make(half, kind), "expected float32 or bfloat16, got Half. Use adamw for it");
  }
}

}  // namespace
}  // namespace reprise::testing
