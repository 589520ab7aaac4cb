// Models with learned positions (gpt2, opt): no position beyond the last, whatever the length of a
// row; and positions that count attended tokens alone.
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

std::shared_ptr<Model> model_of(const Json& json) {
  auto model = std::make_shared<Model>(ModelConfig::from_json(json, "a test"), HeadKind::CausalLm);
  model->initialize(1);
  model->eval();
  return model;
}

std::shared_ptr<Model> small_gpt2() {
  return model_of({{"model_type", "gpt2"},
                   {"vocab_size", 31},
                   {"n_embd", 16},
                   {"n_layer", 2},
                   {"n_head", 2},
                   {"n_positions", kPositions}});
}

std::shared_ptr<Model> small_opt() {
  return model_of({{"model_type", "opt"},
                   {"vocab_size", 31},
                   {"hidden_size", 16},
                   {"num_hidden_layers", 2},
                   {"num_attention_heads", 2},
                   {"ffn_dim", 32},
                   {"max_position_embeddings", kPositions}});
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

TEST(LearnedPositions, OfOptCountAttendedTokensAlone) {
  const at::NoGradGuard no_grad;
  const auto model = small_opt();
  EXPECT_EQ(model->named_parameters()["model.decoder.embed_positions.weight"].size(0),
            kPositions + 2);
  const auto alone = model->forward({.input_ids = ids(4, 6)});
  // Longer than there are positions, but for its padding.
  const auto padding = at::zeros({1, 4}, at::kLong);
  const ModelInput padded{.input_ids = at::cat({padding, ids(4, 6)}, 1),
                          .attention_mask = at::cat({padding, at::ones({1, 6}, at::kLong)}, 1)};
  EXPECT_TRUE(at::allclose(model->forward(padded).slice(1, 4), alone, 1e-5, 1e-5));
  expect_error([&] { model->forward({.input_ids = ids(0, kPositions + 1)}); },
               "this model has learned 8 positions");
  const ModelInput full{.input_ids = ids(0, 10), .attention_mask = at::ones({1, 10}, at::kLong)};
  expect_error([&] { model->forward(full); }, "a sequence of 10 tokens");
}

}  // namespace
}  // namespace reprise
