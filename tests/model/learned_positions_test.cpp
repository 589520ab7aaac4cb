// Models with learned positions (gpt2): no position beyond the last, whatever the length of a row.
#include "support/temporary_folder.h"

#include <reprise/model/model.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include <memory>

namespace reprise {
namespace {

using testing::expect_error;

constexpr int64_t kPositions = 8;

std::shared_ptr<Model> small_gpt2() {
  const Json json = {{"model_type", "gpt2"},
                     {"vocab_size", 31},
                     {"n_embd", 16},
                     {"n_layer", 2},
                     {"n_head", 2},
                     {"n_positions", kPositions}};
  auto model = std::make_shared<Model>(ModelConfig::from_json(json, "a test"), HeadKind::CausalLm);
  model->initialize(1);
  model->eval();
  return model;
}

at::Tensor ids(int64_t first, int64_t count) {
  return at::arange(first, first + count).unsqueeze(0);
}

TEST(LearnedPositions, EndWithTheLast) {
  const at::NoGradGuard no_grad;
  const auto model = small_gpt2();
  EXPECT_NO_THROW(model->forward({.input_ids = ids(0, kPositions)}));
  expect_error([&] { model->forward({.input_ids = ids(0, kPositions + 1)}); },
               "this model has learned 8 positions");
  const ModelInput beyond{.input_ids = ids(0, 10), .position_ids = ids(0, 10)};
  expect_error([&] { model->forward(beyond); }, "a sequence of 10 tokens");
}

TEST(LearnedPositions, CountFromZeroInEachDocumentOfARow) {
  const at::NoGradGuard no_grad;
  const auto model = small_gpt2();
  const auto documents = at::cat({at::zeros({1, 6}, at::kLong), at::ones({1, 7}, at::kLong)}, 1);
  const auto positions = at::cat({ids(0, 6), ids(0, 7)}, 1);
  const auto second = model->forward({.input_ids = ids(6, 7)});
  for (const auto& given : {at::Tensor(), positions}) {
    const ModelInput joined{
        .input_ids = ids(0, 13), .position_ids = given, .document_ids = documents};
    const auto both = model->forward(joined);
    EXPECT_TRUE(at::allclose(both.slice(1, 6), second, 1e-5, 1e-5));
  }
}

}  // namespace
}  // namespace reprise
