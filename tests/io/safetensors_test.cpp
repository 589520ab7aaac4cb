// safetensors files: read, copied, and written as the Python package writes them.
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace reprise::testing {
namespace {

NamedTensors all_of(const TensorFile& file) {
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) {
    tensors.emplace_back(info.name, file.view(info));
  }
  return tensors;
}

TEST(TensorFile, ReadsEveryDtypeThatPythonWrites) {
  const TensorFile file(fixtures() / "io/reference.safetensors");
  EXPECT_EQ(file.tensors().size(), 34u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto dtype : {"uint8",
                           "int8",
                           "int16",
                           "float16",
                           "bfloat16",
                           "int32",
                           "float32",
                           "float64",
                           "int64",
                           "float8_e5m2",
                           "float8_e4m3fn"}) {
    const TensorInfo* const info = file.find(std::string(dtype) + ".weight");
    ASSERT_NE(info, nullptr) << dtype;
    const at::Tensor values = file.view(*info).to(at::kDouble);
    const at::Tensor expected = torch::arange(values.numel(), at::kDouble);
    // Eight bits of a float do not hold every integer up to 11: compare after the same rounding.
    EXPECT_TRUE(values.equal(expected.to(info->dtype).to(at::kDouble))) << dtype;
  }
  EXPECT_EQ(file.view(*file.find("scalar")).item<float>(), 2.5F);
  EXPECT_EQ(file.view(*file.find("empty")).sizes(), (at::IntArrayRef{0, 4}));
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(TensorFile, ViewsKeepTheMappingAlive) {
  at::Tensor view;
  {
    const TensorFile file(fixtures() / "io/reference.safetensors");
    view = file.view(*file.find("float32.weight"));
  }
  EXPECT_EQ(view[3].item<float>(), 3.F);
}

TEST(TensorFile, CopiesIntoAnyDtypeAndLayout) {
  const TensorFile file(fixtures() / "io/reference.safetensors");
  const TensorInfo& info = *file.find("a.11");
  const at::Tensor expected = torch::arange(6, at::kFloat).view({2, 3});
  at::Tensor same = torch::zeros({2, 3});
  file.copy_to(info, same);
  EXPECT_TRUE(same.equal(expected));
  at::Tensor narrow = torch::zeros({2, 3}, at::kBFloat16);
  file.copy_to(info, narrow);
  EXPECT_TRUE(narrow.equal(expected.to(at::kBFloat16)));
  at::Tensor transposed = torch::zeros({3, 2}).t();
  file.copy_to(info, transposed);
  EXPECT_TRUE(transposed.equal(expected));
  at::Tensor parameter = torch::zeros({2, 3}, at::requires_grad());
  file.copy_to(info, parameter);
  EXPECT_TRUE(parameter.is_leaf() && parameter.detach().equal(expected));
}

TEST(TensorFile, RefusesATargetOfAnotherShape) {
  const TensorFile file(fixtures() / "io/reference.safetensors");
  expect_error(
      [&] {
        file.copy_to(*file.find("a.11"), torch::zeros({3, 2}));
      },
      "tensor \"a.11\": expected shape [3, 2], found [2, 3]");
}

TEST(TensorFile, ReadsTensorsThatAreNotAligned) {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  const float values[] = {1.5F, -2.F};
  bytes += header + "\7" + std::string(reinterpret_cast<const char*>(values), sizeof(values));
  write_file(folder / "x", bytes);
  const TensorFile file(folder / "x");
  EXPECT_TRUE(file.view(*file.find("b")).equal(torch::tensor({1.5F, -2.F})));
}

TEST(WriteSafetensors, GivesTheBytesThatPythonGives) {
  const TemporaryFolder folder;
  const auto reference = fixtures() / "io/reference.safetensors";
  NamedTensors tensors = all_of(TensorFile(reference));
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(folder / "x", tensors);
  EXPECT_EQ(read_file(folder / "x"), read_file(reference));
}

TEST(WriteSafetensors, KeepsMetadataAndItsFormat) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {{"a", torch::ones(1)}}, {{"step", "3"}, {"format", "np"}});
  EXPECT_EQ(TensorFile(folder / "x").metadata(),
            (std::map<std::string, std::string>{{"format", "np"}, {"step", "3"}}));
}

TEST(WriteSafetensors, WritesWhatIsNotContiguous) {
  const TemporaryFolder folder;
  const at::Tensor values = torch::arange(12, at::kFloat).view({3, 4});
  write_safetensors(folder / "x",
                    {{"t", values.t()}, {"part", values.slice(1, 1, 3)}, {"one", values[0][1]}});
  const TensorFile file(folder / "x");
  EXPECT_TRUE(file.view(*file.find("t")).equal(values.t()));
  EXPECT_TRUE(file.view(*file.find("part")).equal(values.slice(1, 1, 3)));
  EXPECT_TRUE(file.view(*file.find("one")).equal(values[0][1]));
}

TEST(WriteSafetensors, RefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const at::Tensor one = torch::ones(1);
  const auto write = [&](const NamedTensors& tensors) {
    return [&folder, tensors] { write_safetensors(folder / "x", tensors); };
  };
  expect_error(write({{"a", one}, {"a", one}}), "two tensors are to be written as \"a\"");
  expect_error(write({{"__metadata__", one}}), "cannot name a tensor");
  expect_error(write({{"a", at::Tensor()}}), "expected a dense tensor, found none");
  expect_error(write({{"a", torch::ones(1).to_sparse()}}), "expected a dense tensor");
  expect_error(write({{"a", torch::ones(1, at::kComplexFloat)}}), "found ComplexFloat");
  expect_error(write({{"\xff", one}}), "is not UTF-8");
  EXPECT_TRUE(folder.names().empty());
}

TEST(WriteSafetensors, LeavesTheOldFileWhenATensorFails) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {{"a", torch::ones(1)}});
  const std::string before = read_file(folder / "x");
  const auto fail = []() -> at::Tensor { TORCH_CHECK(false, "no tensor today"); };
  const std::vector<LazyTensor> tensors = {{"a", at::kFloat, {2}, [] { return torch::ones(2); }},
                                           {"b", at::kFloat, {2}, fail}};
  expect_error([&] { stream_safetensors(folder / "x", tensors); }, "no tensor today");
  EXPECT_EQ(read_file(folder / "x"), before);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(StreamSafetensors, HoldsOneTensorAtATime) {
  const TemporaryFolder folder;
  c10::weak_intrusive_ptr<c10::TensorImpl> last(torch::ones(1).getIntrusivePtr());
  std::vector<LazyTensor> tensors;
  for (int i = 0; i < 4; ++i) {
    tensors.push_back({std::to_string(i), at::kFloat, {3}, [&last, i] {
                         EXPECT_TRUE(last.expired()) << "before " << i;
                         at::Tensor made = torch::full({3}, i, at::kFloat);
                         last = c10::weak_intrusive_ptr<c10::TensorImpl>(made.getIntrusivePtr());
                         return made;
                       }});
  }
  stream_safetensors(folder / "x", tensors);
  const TensorFile file(folder / "x");
  EXPECT_EQ(file.view(*file.find("3"))[2].item<float>(), 3.F);
}

TEST(StreamSafetensors, RefusesATensorThatIsNotAsAnnounced) {
  const TemporaryFolder folder;
  const std::vector<LazyTensor> tensors = {
      {"a", at::kFloat, {2}, [] { return torch::ones(2, at::kHalf); }}};
  expect_error([&] { stream_safetensors(folder / "x", tensors); },
               "tensor \"a\": expected [2] of Float, found [2] of Half");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace reprise::testing
