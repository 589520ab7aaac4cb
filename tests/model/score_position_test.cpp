// Where a score is read: at a row's own end, however rows are padded, packed or concatenated; and
// with RightmostNotPad where transformers reads it.
#include "support/fixtures.h"
#include "support/parity.h"

#include <reprise/data/batch.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::kFloat32Bound;
using testing::relative_error;

// Rows that end with the end token (also twice), contain both special tokens, or were cut, and
// their scores by transformers.
const Json& recorded() {
  static const Json rows =
      read_json(testing::fixtures() / "training" / "runs" / "reward_padding.json")
          .at("runs")
          .at("rows");
  return rows;
}

at::Tensor ids_in(const Json& rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) {
    tensors.push_back(torch::tensor(row.get<std::vector<int64_t>>()));
  }
  return torch::stack(tensors);
}

at::Tensor numbers_in(const Json& values) {
  return torch::tensor(values.get<std::vector<double>>());
}

ModelInput input_of(const Json& batch) {
  ModelInput input;
  input.input_ids = ids_in(batch.at("input_ids"));
  input.attention_mask = ids_in(batch.at("attention_mask"));
  return input;
}

ModelInput input_of(const TokenBatch& batch) {
  ModelInput input;
  input.input_ids = batch.input_ids;
  input.attention_mask = batch.attention_mask;
  input.position_ids = batch.position_ids;
  input.document_ids = batch.document_ids;
  input.document_starts = batch.document_starts;
  input.longest_document = batch.longest_document;
  return input;
}

std::shared_ptr<Model> score_model(std::optional<int64_t> pad = {}) {
  const auto folder = testing::fixtures() / "training" / "models" / "score";
  auto model = load_model(folder, {.head = HeadKind::Score}).model;
  model->set_pad_id(pad);
  model->eval();
  return model;
}

at::Tensor scores(Model& model, const ModelInput& input, Pooling pooling = Pooling::LastAttended) {
  const torch::NoGradGuard no_grad;
  return model.score(input, pooling).squeeze(-1).to(at::kDouble);
}

TokenSequence sequence_of(const Json& row) {
  TokenSequence sequence;
  sequence.ids = row.get<std::vector<int64_t>>();
  sequence.labels.assign(sequence.ids.size(), kIgnoredLabel);
  return sequence;
}

TEST(ScorePosition, IsTheRowsOwnEndWhateverPadsIt) {
  for (const std::optional<int64_t> pad : {std::optional<int64_t>(), {0}, {2}}) {
    const auto model = score_model(pad);
    for (const char* batch : {"left_pad", "left_end", "right_pad", "right_end"}) {
      EXPECT_LE(relative_error(scores(*model, input_of(recorded().at(batch))),
                               numbers_in(recorded().at("alone"))),
                kFloat32Bound)
          << batch << ", pad_token_id " << pad.value_or(-1);
    }
  }
}

TEST(ScorePosition, IsTheLastTokenOfARowWithoutAMask) {
  const auto model = score_model(2);
  for (size_t i = 0; i < recorded().at("rows").size(); ++i) {
    ModelInput input;
    input.input_ids = ids_in(Json::array({recorded()["rows"][i]}));
    EXPECT_NEAR(scores(*model, input).item<double>(), recorded()["alone"][i].get<double>(), 1e-5);
  }
}

TEST(ScorePosition, IsTransformersWithRightmostNotPad) {
  for (const auto& [name, pad] : {std::pair("left_pad", 0),
                                  std::pair("right_pad", 0),
                                  std::pair("left_end", 2),
                                  std::pair("right_end", 2)}) {
    const auto found =
        scores(*score_model(pad), input_of(recorded().at(name)), Pooling::RightmostNotPad);
    EXPECT_LE(relative_error(found, numbers_in(recorded().at(name).at("scores"))), kFloat32Bound)
        << name;
  }
  // The batch is padded with another id than config.json names: its rows still end where they end.
  EXPECT_LE(
      relative_error(
          scores(*score_model(2), input_of(recorded().at("right_pad")), Pooling::RightmostNotPad),
          numbers_in(recorded().at("right_end").at("scores"))),
      kFloat32Bound);
}

TEST(ScorePosition, IsTheEndOfEachDocumentOfARow) {
  std::vector<Example> single(recorded().at("rows").size());
  std::vector<Example> packed(2);
  for (size_t i = 0; i < single.size(); ++i) {
    single[i].sequences = {sequence_of(recorded()["rows"][i])};
    packed[i / 2].sequences.push_back(single[i].sequences.front());
  }
  const auto batches = {
      collate(single, {.pad_id = 2, .padding_free = true}).main,
      collate(single, {.pad_id = 2, .pad_to_multiple_of = 16, .padding_free = true}).main,
      collate(packed, {.pad_id = 2, .packed = true}).main,
      collate(packed, {.pad_id = 2, .pad_left = true, .packed = true}).main};
  for (const auto& batch : batches) {
    EXPECT_LE(relative_error(scores(*score_model(2), input_of(batch)),
                             numbers_in(recorded().at("alone"))),
              kFloat32Bound)
        << batch.input_ids;
    EXPECT_LE(relative_error(scores(*score_model(2), input_of(batch), Pooling::RightmostNotPad),
                             numbers_in(recorded().at("right_end").at("scores"))),
              kFloat32Bound)
        << batch.input_ids;
  }
}

// As padding_idx in transformers: an end token that is also the pad token learns nothing from
// being looked up.
TEST(PadEmbedding, GetsNoGradientInTheFamiliesWhereTransformersGivesItNone) {
  for (const auto& [name, is_fixed] : {std::pair("llama_score", true),
                                       std::pair("mistral_score", true),
                                       std::pair("qwen2_score", true),
                                       std::pair("gpt2_score", false),
                                       std::pair("phi_score", true),
                                       std::pair("falcon_score", false),
                                       std::pair("bloom_score", false),
                                       std::pair("opt_score", true),
                                       std::pair("gptj_score", false),
                                       std::pair("gpt_neo_score", false),
                                       std::pair("stablelm_score", true),
                                       std::pair("starcoder2_score", true),
                                       std::pair("nemotron_score", true),
                                       std::pair("gpt_bigcode_score", false),
                                       std::pair("gpt_neox_score", false)}) {
    const auto folder = testing::fixtures() / "models" / name;
    const auto model = load_model(folder, {.head = HeadKind::Score}).model;
    const int64_t pad = model->config().pad_id.value();
    ModelInput input;
    input.input_ids = torch::tensor({{pad + 5, pad, pad + 6}});
    model->score(input).sum().backward();
    const auto gradient = model->parameters().front().grad();
    EXPECT_EQ(gradient[pad].abs().max().item<float>() == 0, is_fixed) << name;
    EXPECT_GT(gradient[pad + 5].abs().max().item<float>(), 0) << name;
  }
}

}  // namespace
}  // namespace reprise
