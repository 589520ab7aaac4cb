// Clipping by the joint norm, against torch.nn.utils.clip_grad_norm_.
#include "optim/expected_file.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/temporary_folder.h"
#include "support/tensor_parts.h"
#include "support/tensors.h"
#include "support/thread_world.h"

#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace reprise::testing {
namespace {

Optimizer::Parameters with_grads(const std::vector<at::Tensor>& grads) {
  Optimizer::Parameters parameters;
  for (const at::Tensor& grad : grads) {
    const at::Tensor parameter = torch::zeros_like(grad).set_requires_grad(true);
    parameter.mutable_grad() = grad.clone();
    parameters.emplace_back("p" + std::to_string(parameters.size()), parameter);
  }
  return parameters;
}

class ClipFixture : public ::testing::Test {
 protected:
  void expect_as_torch(const std::string& prefix, double max_norm, at::Device device) const {
    const at::Tensor norm = file_.tensor(prefix + "/norm");
    std::vector<at::Tensor> grads;
    for (int i = 0; i < 4; ++i) {
      const at::Tensor grad = file_.tensor("grad/" + std::to_string(i));
      grads.push_back(grad.to(device, norm.scalar_type()));
    }
    const auto parameters = with_grads(grads);
    const at::Tensor found = clip_grad_norm(parameters, max_norm);
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    EXPECT_EQ(found.device().type(), device.type());
    // The order of a sum depends on the instruction set. A norm of bfloat16 may then round to its
    // neighbour, and so may what is multiplied by it: two units in the last place.
    const double rtol = norm.scalar_type() == at::kFloat ? 1e-6 : 0.016;
    EXPECT_TRUE(at::allclose(found.cpu(), norm.to(at::kFloat), rtol, /*atol=*/0)) << prefix;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor expected = file_.tensor(prefix + "/grad/" + std::to_string(i));
      const at::Tensor clipped = parameters[i].second.grad();
      ASSERT_EQ(clipped.scalar_type(), expected.scalar_type());
      EXPECT_TRUE(at::allclose(clipped.cpu(), expected, rtol, /*atol=*/0)) << prefix << " " << i;
    }
  }

  ExpectedFile file_{"clipping"};
};

TEST_F(ClipFixture, EqualsTorchOnEveryDevice) {
  const Json max_norms = file_.fact("max_norms");
  ASSERT_EQ(max_norms.size(), 2U);
  for (const auto& [name, max_norm] : max_norms.items()) {
    for (const auto device : devices()) {
      expect_as_torch("float32/" + name, max_norm.get<double>(), device);
      expect_as_torch("bfloat16/" + name, max_norm.get<double>(), device);
    }
  }
}

TEST(ClipGradNorm, EqualsTheFormulaBitwise) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> grads = {
      torch::randn({300, 50}), torch::randn(7), torch::randn({})};
  std::vector<at::Tensor> norms;
  for (const at::Tensor& grad : grads) {
    norms.push_back(torch::linalg_vector_norm(grad, 2));
  }
  const at::Tensor norm = torch::linalg_vector_norm(torch::stack(norms), 2);
  const at::Tensor factor = (1.5 / (norm + 1e-6)).clamp_max(1.0);
  const auto parameters = with_grads(grads);
  EXPECT_TRUE(bitwise_equal(clip_grad_norm(parameters, 1.5), norm));
  for (size_t i = 0; i < grads.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(parameters[i].second.grad(), grads[i] * factor)) << i;
  }
}

TEST(ClipGradNorm, LeavesWhatIsSmallEnough) {
  const auto parameters = with_grads({torch::full({4}, 0.5F)});
  EXPECT_EQ(clip_grad_norm(parameters, 1.5).item<float>(), 1.F);
  EXPECT_TRUE(parameters[0].second.grad().equal(torch::full({4}, 0.5F)));
}

TEST(ClipGradNorm, OnlyMeasuresWithoutABound) {
  const auto parameters = with_grads({torch::full({9}, 100.F)});
  EXPECT_EQ(clip_grad_norm(parameters, 0).item<float>(), 300.F);
  EXPECT_TRUE(parameters[0].second.grad().equal(torch::full({9}, 100.F)));
}

TEST(ClipGradNorm, JoinsGradientsOfDifferentDtypes) {
  const auto parameters =
      with_grads({torch::full({1}, 3.F), torch::full({1}, 4.F).to(at::kBFloat16)});
  EXPECT_EQ(clip_grad_norm(parameters, 2.5).item<float>(), 5.F);
  EXPECT_NEAR(parameters[0].second.grad().item<float>(), 1.5, 1e-6);
  EXPECT_EQ(parameters[1].second.grad().scalar_type(), at::kBFloat16);
  EXPECT_NEAR(parameters[1].second.grad().item<float>(), 2, 0.01);
}

TEST(ClipGradNorm, ReturnsInfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto infinite = with_grads({torch::ones(2), torch::tensor({1.F, kInfinity})});
  EXPECT_EQ(clip_grad_norm(infinite, 1).item<float>(), kInfinity);
  const auto nan = with_grads({torch::ones(2), torch::tensor({NAN, kInfinity})});
  EXPECT_TRUE(std::isnan(clip_grad_norm(nan, 1).item<float>()));
}

TEST(ClipGradNorm, IsZeroWithoutGradients) {
  EXPECT_EQ(clip_grad_norm({}, 1).item<float>(), 0.F);
  const at::Tensor norm = clip_grad_norm({{"p", torch::ones(2, at::kDouble)}}, 1);
  EXPECT_EQ(norm.item<float>(), 0.F);
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
}

TEST(ClipGradNorm, RefusesANegativeBound) {
  expect_error([] { clip_grad_norm({}, -1); }, "max_norm: expected at least 0");
  expect_error([] { clip_grad_norm({}, NAN); }, "max_norm: expected at least 0");
}

TEST(ClipGradNorm, OfPartsIsThatOfTheWhole) {
  torch::manual_seed(5);
  const std::vector<at::Tensor> grads = {
      torch::randn({300, 70}), torch::randn({2}), torch::randn({1000}).mul(3)};
  const auto whole = with_grads(grads);
  const auto norm = clip_grad_norm(whole, 1.0).item<double>();
  for (const int64_t size : {1, 2, 4}) {
    run_in_world(size, [&](const World& world) {
      Optimizer::Parameters parts;
      for (const at::Tensor& grad : grads) {
        const auto part = part_here("", grad, world).values;
        const auto parameter = torch::zeros_like(part);
        parameter.mutable_grad() = part.clone();
        parts.emplace_back("", parameter);
      }
      const auto found = clip_grad_norm(parts, 1.0, world);
      EXPECT_EQ(found.scalar_type(), at::kFloat);
      EXPECT_NEAR(found.item<double>() / norm, 1, 1.5e-7) << size;
      for (size_t i = 0; i < grads.size(); ++i) {
        const auto expected = part_here("", whole[i].second.grad(), world).values;
        EXPECT_TRUE(at::allclose(parts[i].second.grad(), expected, 1e-6, 0)) << size;
      }
    });
  }
}

TEST(ClipGradNorm, CountsAProcessWithoutAnyPart) {
  run_in_world(2, [&](const World& world) {
    const auto parts =
        world.is_first() ? with_grads({torch::full({4}, 2.0)}) : Optimizer::Parameters();
    EXPECT_EQ(clip_grad_norm(parts, 0, world).item<double>(), 4.0);
  });
}

}  // namespace
}  // namespace reprise::testing
