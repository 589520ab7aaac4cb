// GGUF tensors: read bit for bit as the gguf package dequantizes them, and written bit for bit as
// it quantizes them.
#include "io/gguf/gguf_write.h"
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_quantize.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/file.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using io::GgufType;

TEST(GgufFile, DequantizesToTheLastBit) {
  const io::GgufFile file(fixtures() / "io/quantized.gguf");
  const TensorFile expected(fixtures() / "io/quantized.safetensors");
  ASSERT_EQ(file.tensors().size(), 7u);
  for (const io::GgufTensor& tensor : file.tensors()) {
    const at::Tensor values = file.load(tensor);
    const at::Tensor want = expected.view(*expected.find(tensor.name));
    EXPECT_TRUE(values.view(at::kInt).equal(want.view(at::kInt))) << tensor.name;
  }
  EXPECT_EQ(file.find("none"), nullptr);
}

at::Tensor quantized(GgufType type, const at::Tensor& values, bool& fits) {
  const int64_t bytes = type == GgufType::F32   ? 4 * values.numel()
                        : type == GgufType::Q80 ? values.numel() / 32 * 34
                                                : 2 * values.numel();
  at::Tensor out = at::empty({bytes}, at::kByte);
  fits =
      io::quantize(type,
                   {values.const_data_ptr<float>(), static_cast<size_t>(values.numel())},
                   {static_cast<std::byte*>(out.mutable_data_ptr()), static_cast<size_t>(bytes)});
  return out;
}

TEST(GgufQuantize, HasTheBitsOfTheGgufPackage) {
  const TensorFile file(fixtures() / "io/quantize.safetensors");
  const at::Tensor values = file.view(*file.find("values"));
  for (const char* name : {"f32", "f16", "bf16", "q8_0"}) {
    bool fits = false;
    const at::Tensor bytes = quantized(*io::gguf_output_type(name), values, fits);
    EXPECT_TRUE(fits) << name;
    EXPECT_TRUE(bytes.equal(file.view(*file.find(name)))) << name;
  }
  EXPECT_FALSE(io::gguf_output_type("q4_0").has_value());
}

TEST(GgufQuantize, SaysWhatATypeCannotHold) {
  bool fits = true;
  const at::Tensor large = at::full({32}, 1e5F);
  quantized(GgufType::F16, large, fits);
  EXPECT_FALSE(fits);
  quantized(GgufType::Q80, large, fits);
  EXPECT_TRUE(fits);
  quantized(GgufType::Q80, at::full({32}, 1e8F), fits);
  EXPECT_FALSE(fits) << "the scale is a float16";
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor values = at::zeros({32});
    values[7] = value;
    quantized(GgufType::Q80, values, fits);
    EXPECT_FALSE(fits);
    quantized(GgufType::BF16, values, fits);
    EXPECT_TRUE(fits);
  }
}

TEST(GgufWrite, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const io::GgufValues values = {{"general.architecture", "llama"},
                                 {"a.size", uint32_t{7}},
                                 {"a.number", 0.5F},
                                 {"a.flag", true},
                                 {"a.words", std::vector<std::string>{"x", "", "\u00e4"}},
                                 {"a.scores", std::vector<float>{-1, 2.5}},
                                 {"a.kinds", std::vector<int32_t>{1, -3}},
                                 {"a.flags", std::vector<bool>{true, false}}};
  const at::Tensor matrix = at::rand({3, 64}, at::kDouble).to(at::kBFloat16);
  const at::Tensor row = at::rand({5});
  const uint64_t bytes =
      io::write_gguf(folder / "x.gguf",
                     values,
                     {{"row", GgufType::F32, {5}, [&] { return row; }},
                      {"matrix", GgufType::BF16, {3, 64}, [&] { return matrix; }},
                      {"turned", GgufType::F32, {64, 3}, [&] { return matrix.t(); }}});
  EXPECT_EQ(bytes, std::filesystem::file_size(folder / "x.gguf"));
  EXPECT_EQ(bytes % 32, 0u);
  const io::GgufFile file(folder / "x.gguf");
  EXPECT_EQ(file.metadata().at("a.size"), 7);
  EXPECT_EQ(file.metadata().at("a.number"), 0.5);
  EXPECT_EQ(file.metadata().at("a.flag"), true);
  EXPECT_EQ(file.metadata().at("a.words"), (Json{"x", "", "\u00e4"}));
  EXPECT_EQ(file.metadata().at("a.scores"), (Json{-1, 2.5}));
  EXPECT_EQ(file.metadata().at("a.kinds"), (Json{1, -3}));
  EXPECT_EQ(file.metadata().at("a.flags"), (Json{true, false}));
  EXPECT_TRUE(file.load(*file.find("row")).equal(row));
  EXPECT_TRUE(file.load(*file.find("matrix")).equal(matrix.to(at::kFloat)));
  EXPECT_TRUE(file.load(*file.find("turned")).equal(matrix.t().to(at::kFloat)));
}

TEST(GgufWrite, LeavesNoFileWhereAValueDoesNotFit) {
  const TemporaryFolder folder;
  const auto write = [&] {
    io::write_gguf(folder / "x.gguf", {}, {{"blk.0.ffn_up.weight", GgufType::F16, {1, 2}, [] {
                                              return at::full({1, 2}, 1e5F);
                                            }}});
  };
  expect_error(write, "tensor \"blk.0.ffn_up.weight\": has values that F16 cannot hold");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace reprise::testing
