// Which parameters are decayed, against Trainer.get_decay_parameter_names of transformers.
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

TEST(Decays, AgreesWithTransformersForEveryParameterOfEveryFamily) {
  const Json models = read_json(fixtures() / "optim/decays.json");
  ASSERT_EQ(models.size(), 13U);
  for (const auto& [model, parameters] : models.items()) {
    for (const auto& [name, expected] : parameters.items()) {
      const auto shape = expected.at("shape").get<std::vector<int64_t>>();
      EXPECT_EQ(decays(name, torch::empty(shape)), expected.at("decays").get<bool>())
          << model << ": " << name;
    }
  }
}

TEST(Decays, LooksAtWholeStepsOfANameForNorm) {
  const at::Tensor vector = torch::empty(3);
  EXPECT_FALSE(decays("norm", vector));
  EXPECT_FALSE(decays("model.Norm.weight", vector));
  EXPECT_FALSE(decays("final_norm", vector));
  EXPECT_FALSE(decays("MyLayerNorm2.weight", vector));
  EXPECT_FALSE(decays("a.rmsnorm.weight", vector));
  EXPECT_TRUE(decays("normal.weight", vector));
  EXPECT_TRUE(decays("norm1.weight", vector));
  EXPECT_TRUE(decays("", vector));
}

TEST(Decays, TakesOnlyVectorsForNormsCalledLn) {
  EXPECT_FALSE(decays("h.0.ln_1.weight", torch::empty(3)));
  EXPECT_TRUE(decays("h.0.ln_1.weight", torch::empty({3, 3})));
}

}  // namespace
}  // namespace reprise::testing
