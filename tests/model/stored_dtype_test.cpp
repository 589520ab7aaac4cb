// Weights in another type than the one they are stored in: exact where the type holds them, with a
// warning where it does not.
#include "model/lora_case.h"
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::contains;

class StoredDtype : public ::testing::Test {
 protected:
  /// The llama of the fixtures, stored in this type; config.json says so, or another one.
  void write(at::ScalarType stored, const char* said, double largest = 1) {
    const auto source = testing::fixtures() / "models" / "llama";
    Json config = read_json(source / "config.json");
    config.erase("torch_dtype");
    config["dtype"] = said;
    write_json(folder_ / "config.json", config);
    const TensorCheckpoint checkpoint(source);
    NamedTensors tensors;
    for (const auto& name : checkpoint.names()) {
      at::Tensor tensor = checkpoint.view(name).clone();
      if (name.ends_with("layers.1.mlp.up_proj.weight")) {
        tensor[0][0] = largest;
      }
      tensors.emplace_back(name, tensor.to(stored));
    }
    write_checkpoint(folder_.path(), tensors);
  }

  LoadedModel load(std::optional<at::ScalarType> dtype) {
    return load_model(folder_.path(), {.dtype = dtype});
  }

  testing::TemporaryFolder folder_;
};

TEST_F(StoredDtype, Float16IsOpenedAsItIs) {
  write(at::kHalf, "float16");
  const auto loaded = load(std::nullopt);
  EXPECT_EQ(loaded.model->dtype(), at::kHalf);
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST_F(StoredDtype, Float16IsExactInFloat32) {
  write(at::kHalf, "float16", 65504);
  const auto loaded = load(at::kFloat);
  EXPECT_TRUE(loaded.warnings.empty());
  const TensorCheckpoint checkpoint(folder_.path());
  for (const auto& item : loaded.model->named_parameters()) {
    EXPECT_TRUE(
        testing::bitwise_equal(item.value().detach().to(at::kHalf), checkpoint.view(item.key())))
        << item.key();
  }
}

TEST_F(StoredDtype, Float16IsRoundedToBfloat16WithAWarning) {
  write(at::kHalf, "float16", 65504);
  const auto loaded = load(at::kBFloat16);
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_TRUE(contains(loaded.warnings[0], "stored as float16 and rounded to bfloat16"));
  for (const auto& item : loaded.model->named_parameters()) {
    EXPECT_TRUE(at::isfinite(item.value()).all().item<bool>()) << item.key();
  }
}

TEST_F(StoredDtype, ValuesThatFloat16CannotHoldAreNamed) {
  write(at::kFloat, "float32", 1e5);
  const auto loaded = load(at::kHalf);
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_TRUE(contains(
      loaded.warnings[0],
      "beyond float16's range of 65504 became infinite in model.layers.1.mlp.up_proj.weight"))
      << loaded.warnings[0];
  write(at::kBFloat16, "bfloat16", 65000);
  EXPECT_TRUE(load(at::kHalf).warnings.empty());
}

TEST_F(StoredDtype, OtherThanConfigJsonSaysIsAWarning) {
  write(at::kHalf, "float32");
  const auto loaded = load(std::nullopt);
  EXPECT_EQ(loaded.model->dtype(), at::kFloat);
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_TRUE(
      contains(loaded.warnings[0], "config.json says float32, but tensors are stored as float16"));
  write(at::kFloat, "float32");
  EXPECT_TRUE(load(at::kBFloat16).warnings.empty()) << "as was asked for";
}

}  // namespace
}  // namespace reprise
