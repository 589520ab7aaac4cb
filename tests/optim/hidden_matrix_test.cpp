// Which parameters Muon takes for hidden matrices, and its refusal of parts of them.
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace reprise::testing {
namespace {

// The parameters of a model of every family, as transformers names them.
TEST(HiddenMatrix, IsAMatrixOfABlockInEveryFamily) {
  const Json models = read_json(fixtures() / "optim/decays.json");
  for (const auto& [model, parameters] : models.items()) {
    for (const auto& [name, facts] : parameters.items()) {
      const bool is_of_block =
          name.find("layers.") != std::string::npos || name.find(".h.") != std::string::npos;
      const bool is_matrix = facts.at("shape").size() == 2;
      EXPECT_EQ(is_hidden_matrix(name, std::ssize(facts.at("shape"))), is_of_block && is_matrix)
          << model << ": " << name;
    }
  }
}

TEST(HiddenMatrix, IsNoHeadOfScoresOrValues) {
  EXPECT_FALSE(is_hidden_matrix("score.weight", 2));
  EXPECT_FALSE(is_hidden_matrix("transformer.embedding.word_embeddings.weight", 2));
  EXPECT_FALSE(is_hidden_matrix("transformer.output_layer.weight", 2));
  EXPECT_TRUE(is_hidden_matrix("scores.weight", 2));
  EXPECT_FALSE(is_hidden_matrix("layers.0.conv.weight", 3));
}

TEST(HiddenMatrix, IsNotUpdatedInParts) {
  const at::Tensor values = torch::zeros({6});
  for (const auto kind : {OptimizerKind::Muon, OptimizerKind::Adafactor}) {
    expect_error(
        [&] {
          Optimizer::make({TensorPart{"w", {3, 4}, 6, values}}, {.kind = kind});
        },
        "parameter \"w\": expected all of it, because it is updated as a whole, got 6 of "
        "12 elements. Use ddp, or another optimizer");
  }
}

}  // namespace
}  // namespace reprise::testing
