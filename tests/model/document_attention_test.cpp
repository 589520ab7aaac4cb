// Attention by the bounds of documents: when it serves, what is told instead of a mask, and on a
// GPU the same as with the mask, as each document alone, and under every memory policy.
#include "data/batch/cumulative_lengths.h"
#include "model/layers/attention_mask.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/kernel_calls.h"
#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/autocast.h>
#include <reprise/loss/next_token.h>
#include <reprise/model/attention_kernels.h>
#include <reprise/model/model.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::contains;
using testing::message_of;
using testing::relative_error;

constexpr int64_t kVocabulary = 61;
constexpr int64_t kWindow = 5;

std::shared_ptr<Model> random_model(const std::string& family, const at::TensorOptions& options) {
  Json json = {{"model_type", family},
               {"vocab_size", kVocabulary},
               {"hidden_size", 128},
               {"intermediate_size", 160},
               {"num_hidden_layers", 2},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"head_dim", 32},
               {"tie_word_embeddings", false},
               {"max_position_embeddings", 64},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 100.0}};
  if (family == "mistral") {
    json["sliding_window"] = kWindow;
  }
  auto model =
      std::make_shared<Model>(ModelConfig::from_json(json, "a test"), HeadKind::CausalLm, options);
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  for (auto& parameter : model->parameters()) {
    // Drawn in float32 on the CPU and of few bits: models of any type and device are the same.
    const auto values = torch::randn(parameter.sizes()).mul(16).round().div(128);
    parameter.copy_(parameter.dim() == 1 ? values + 1 : values);
  }
  model->eval();
  return model;
}

struct Packed {
  ModelInput input;
  at::Tensor labels;
  std::vector<std::pair<int64_t, int64_t>>
      documents;  ///< without padding: start, end in all tokens
};

/// Two rows of 24 tokens: documents of 10 and 9 with padding behind them, and of 7 and 17.
Packed packed_rows(at::Device device) {
  const std::vector<std::vector<int64_t>> rows{{10, 9, 5}, {7, 17}};
  Packed packed;
  data::CumulativeLengths lengths;
  std::vector<int64_t> documents, mask;
  int64_t place = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const bool is_padding = row == 0 && i == 2;
      lengths.add(rows[row][i]);
      documents.insert(documents.end(), static_cast<size_t>(rows[row][i]), static_cast<int64_t>(i));
      mask.insert(mask.end(), static_cast<size_t>(rows[row][i]), is_padding ? 0 : 1);
      if (!is_padding) {
        packed.documents.emplace_back(place, place + rows[row][i]);
      }
      place += rows[row][i];
    }
  }
  const auto ids = (torch::arange(place) * 7 % kVocabulary).view({2, -1});
  packed.labels = ids.masked_fill(torch::tensor(mask).view_as(ids) == 0, kIgnoredLabel);
  for (const auto& document : packed.documents) {
    packed.labels.view({-1})[document.first] = kIgnoredLabel;
  }
  packed.labels = packed.labels.to(device);
  packed.input.input_ids = ids.to(device);
  packed.input.attention_mask = torch::tensor(mask).view_as(ids).to(device);
  packed.input.document_ids = torch::tensor(documents).view_as(ids).to(device);
  packed.input.document_starts = lengths.tensor().to(device);
  packed.input.longest_document = lengths.longest();
  return packed;
}

ModelInput without_runs(ModelInput input) {
  input.document_starts.reset();
  input.longest_document = 0;
  return input;
}

/// Logits of what is no padding, then all gradients.
std::vector<at::Tensor> logits_and_gradients(Model& model,
                                             const ModelInput& input,
                                             const at::Tensor& labels) {
  model.zero_grad();
  const auto logits = model.forward(input);
  next_token_loss(logits, labels).backward();
  std::vector<at::Tensor> results{
      logits.detach().flatten(0, 1).index({input.attention_mask.view({-1}) != 0})};
  for (const auto& parameter : model.parameters()) {
    results.push_back(parameter.grad().clone());
  }
  return results;
}

TEST(DocumentAttention, ServesSixteenBitHeadsOnAGpuWithoutDropout) {
  const DocumentFacts fits{.device = at::kCUDA, .type = at::kBFloat16, .head_dim = 128};
  const auto with = [&](auto change) {
    DocumentFacts facts = fits;
    change(facts);
    return fits_documents(facts);
  };
  EXPECT_TRUE(fits_documents(fits));
  EXPECT_TRUE(with([](auto& facts) { facts.type = at::kHalf; }));
  EXPECT_TRUE(with([](auto& facts) { facts.head_dim = 256; }));
  EXPECT_FALSE(with([](auto& facts) { facts.type = at::kFloat; }));
  EXPECT_FALSE(with([](auto& facts) { facts.device = at::kCPU; }));
  EXPECT_FALSE(with([](auto& facts) { facts.head_dim = 264; }));
  EXPECT_FALSE(with([](auto& facts) { facts.head_dim = 20; }));
  EXPECT_FALSE(with([](auto& facts) { facts.dropout = 0.1; }));
  EXPECT_FALSE(with([](auto& facts) { facts.has_cache = true; }));
}

TEST(DocumentAttention, MakesNoMask) {
  const auto input = packed_rows(at::kCPU).input;
  const auto masks = attention_masks(input, 0, {0, kWindow, 100}, /*goes_by_runs=*/true);
  for (const int64_t window : {int64_t{0}, kWindow, int64_t{100}}) {
    const auto& mask = masks.at(window);
    EXPECT_FALSE(mask.allowed.defined());
    EXPECT_TRUE(mask.documents.starts.is_same(input.document_starts));
    EXPECT_EQ(mask.documents.longest, 17);
    EXPECT_EQ(mask.documents.window, window);
  }
  const auto masked = attention_masks(input, 0, {0}, /*goes_by_runs=*/false).at(0);
  EXPECT_FALSE(masked.documents.starts.defined());
  EXPECT_EQ(masked.allowed.sizes(), (std::vector<int64_t>{2, 1, 24, 24}));
}

TEST(DocumentAttention, WholeRowsNeedNeitherBoundsNorMask) {
  auto input = packed_rows(at::kCPU).input;
  input.document_starts = torch::tensor({0, 24, 48}, at::kInt);
  input.longest_document = 24;
  for (const bool goes_by_runs : {false, true}) {
    const auto masks = attention_masks(input, 0, {0, kWindow}, goes_by_runs);
    EXPECT_FALSE(masks.at(0).allowed.defined());
    EXPECT_FALSE(masks.at(0).documents.starts.defined());
    EXPECT_TRUE(masks.at(0).is_causal);
    EXPECT_EQ(masks.at(kWindow).documents.starts.defined(), goes_by_runs);
    EXPECT_EQ(masks.at(kWindow).allowed.defined(), !goes_by_runs);
  }
}

TEST(DocumentAttention, ChangesNoBitWhereItDoesNotServe) {
  const auto model = random_model("mistral", at::kFloat);
  const auto packed = packed_rows(at::kCPU);
  testing::expect_bitwise_equal(
      logits_and_gradients(*model, packed.input, packed.labels),
      logits_and_gradients(*model, without_runs(packed.input), packed.labels));
}

TEST(DocumentAttention, RefusesBoundsThatCannotBeThoseOfTheRows) {
  const auto model = random_model("llama", at::kFloat);
  const auto message = [&](const at::Tensor& starts, int64_t longest) {
    auto input = packed_rows(at::kCPU).input;
    input.document_starts = starts;
    input.longest_document = longest;
    return message_of<c10::Error>([&] { model->forward(input); });
  };
  EXPECT_TRUE(contains(message(torch::tensor({0, 24, 48}), 24), "expected int32"));
  EXPECT_TRUE(contains(message(torch::tensor({0, 48}, at::kInt), 24), "at least one each"));
  EXPECT_TRUE(
      contains(message(torch::tensor({0, 24, 40}, at::kInt), 24), "expected 48 at the end"));
  EXPECT_TRUE(contains(message(torch::tensor({0, 24, 48}, at::kInt), 0), "longest_document"));
}

TEST(AttentionKernels, AreChosenForTheProcess) {
  const auto served = [] {
    return served_attention({.heads = 4, .kv_heads = 2, .head_dim = 16, .length = 64}, at::kFloat);
  };
  EXPECT_EQ(served(), "flash");
  choose_kernels({.attention = AttentionKernel::Math});
  EXPECT_EQ(served(), "math");
  choose_kernels({});
  EXPECT_EQ(served(), "flash");
  const auto refused = message_of<c10::Error>(
      [] { choose_kernels({.attention = AttentionKernel::Cudnn, .is_deterministic = true}); });
  EXPECT_TRUE(contains(refused, "expected flash or math in deterministic mode"));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_attention_kernel("fast"); }), "\"fast\""));
}

class OnAGpu : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { REPRISE_REQUIRE_CUDA(); }

  std::shared_ptr<Model> model(at::ScalarType type = at::kBFloat16) const {
    return random_model(GetParam(), at::device(at::kCUDA).dtype(type));
  }
};

TEST_P(OnAGpu, IsAsExactAsTheMask) {
  const auto packed = packed_rows(at::kCUDA);
  const auto exact =
      logits_and_gradients(*model(at::kFloat), without_runs(packed.input), packed.labels);
  const auto narrow = model();
  testing::KernelCalls calls("aten", "_flash_attention_forward");
  const auto masked = logits_and_gradients(*narrow, without_runs(packed.input), packed.labels);
  EXPECT_EQ(calls.get(), 0U);
  const auto found = logits_and_gradients(*narrow, packed.input, packed.labels);
  EXPECT_EQ(calls.get(), 2U) << "once a layer";
  ASSERT_EQ(found.size(), exact.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(relative_error(found[i], exact[i]), 2 * relative_error(masked[i], exact[i]) + 0x1p-8)
        << "tensor " << i;
  }
  auto unpacked = without_runs(packed.input);
  unpacked.document_ids.reset();
  EXPECT_GT(relative_error(logits_and_gradients(*narrow, unpacked, packed.labels)[0], exact[0]),
            0.1)
      << "the test would not notice documents that see each other";
}

TEST_P(OnAGpu, EachDocumentIsAsIfAlone) {
  const torch::NoGradGuard no_grad;
  const auto packed = packed_rows(at::kCUDA);
  const auto narrow = model(), wide = model(at::kFloat);
  const auto found = narrow->forward(packed.input).flatten(0, 1);
  for (const auto& [start, end] : packed.documents) {
    ModelInput alone;
    alone.input_ids = packed.input.input_ids.view({1, -1}).slice(1, start, end);
    const auto exact = wide->forward(alone)[0];
    EXPECT_LE(relative_error(found.slice(0, start, end), exact),
              2 * relative_error(narrow->forward(alone)[0], exact) + 0x1p-8);
  }
}

TEST_P(OnAGpu, ServesUnderAutocast) {
  const auto packed = packed_rows(at::kCUDA);
  const auto wide = model(at::kFloat);
  const auto exact = logits_and_gradients(*wide, without_runs(packed.input), packed.labels);
  const AutocastScope autocast(at::kCUDA);
  const auto masked = logits_and_gradients(*wide, without_runs(packed.input), packed.labels);
  testing::KernelCalls calls("aten", "_flash_attention_forward");
  const auto found = logits_and_gradients(*wide, packed.input, packed.labels);
  EXPECT_EQ(calls.get(), 2U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(relative_error(found[i], exact[i]), 2 * relative_error(masked[i], exact[i]) + 0x1p-8)
        << "tensor " << i;
  }
}

TEST_P(OnAGpu, HasTheSameGradientsUnderEveryPolicy) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const auto packed = packed_rows(at::kCUDA);
  const auto narrow = model();
  const auto plain = logits_and_gradients(*narrow, packed.input, packed.labels);
  for (const char* policy : {"full", "attention", "matmuls"}) {
    SCOPED_TRACE(policy);
    narrow->enable_checkpointing(BlockChoice::all(), checkpoint_options_named(policy));
    testing::KernelCalls calls("aten", "_flash_attention_forward");
    testing::expect_bitwise_equal(logits_and_gradients(*narrow, packed.input, packed.labels),
                                  plain);
    EXPECT_EQ(calls.get(), policy == std::string("attention") ? 2U : 4U);
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

INSTANTIATE_TEST_SUITE_P(DocumentAttention,
                         OnAGpu,
                         ::testing::Values("llama", "mistral"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace reprise
