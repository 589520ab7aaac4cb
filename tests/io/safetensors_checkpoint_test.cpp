// Checkpoints of one file or many: split as Hugging Face splits, read back whole, refused when
// index and shards disagree, and replaced without a moment at which neither old nor new can be
// read.
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using Names = std::vector<std::string>;

NamedTensors four_tensors() {
  NamedTensors tensors;
  for (const std::string name : {"d", "c", "b", "a"}) {
    tensors.emplace_back(name, torch::full({10}, static_cast<float>(name[0])));  // 40 bytes each
  }
  return tensors;
}

void expect_four_tensors(const TensorCheckpoint& checkpoint) {
  EXPECT_EQ(checkpoint.names(), (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(checkpoint.total_bytes(), 160u);
  for (const auto& [name, tensor] : four_tensors()) {
    EXPECT_TRUE(checkpoint.view(name).equal(tensor)) << name;
    at::Tensor copy = torch::empty(10);
    checkpoint.copy_to(name, copy);
    EXPECT_TRUE(copy.equal(tensor)) << name;
  }
}

TEST(TensorCheckpoint, OneFileWhenItFits) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors(), 160);
  EXPECT_EQ(folder.names(), Names{"model.safetensors"});
  expect_four_tensors(TensorCheckpoint(folder.path()));
  expect_four_tensors(TensorCheckpoint(folder / "model.safetensors"));
}

TEST(TensorCheckpoint, ShardsInTheOrderGiven) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors(), 100);
  EXPECT_EQ(folder.names(),
            (Names{"model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json"}));
  expect_four_tensors(TensorCheckpoint(folder.path()));
  EXPECT_EQ(read_file(folder / "model.safetensors.index.json"),
            R"({
  "metadata": {
    "total_size": 160
  },
  "weight_map": {
    "a": "model-00002-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors",
    "c": "model-00001-of-00002.safetensors",
    "d": "model-00001-of-00002.safetensors"
  }
}
)");
}

TEST(TensorCheckpoint, ATensorLargerThanAShardGetsItsOwn) {
  const TemporaryFolder folder;
  write_checkpoint(
      folder.path(), {{"s", torch::ones(2)}, {"L", torch::ones(9)}, {"t", torch::ones(2)}}, 16);
  EXPECT_EQ(folder.names().size(), 3u);
  EXPECT_EQ(TensorFile(folder / "model-00001-of-00002.safetensors").tensors()[0].name, "L");
  EXPECT_EQ(TensorFile(folder / "model-00002-of-00002.safetensors").tensors().size(), 2u);
}

TEST(TensorCheckpoint, HasOtherStems) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors(), 100, "adapter_model");
  expect_four_tensors(TensorCheckpoint(folder.path(), "adapter_model"));
  expect_error([&] { TensorCheckpoint{folder.path()}; },
               "expected one of model.safetensors, model.safetensors.index.json, ");
}

TEST(TensorCheckpoint, MayBeEmpty) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), {});
  EXPECT_TRUE(TensorCheckpoint(folder.path()).names().empty());
}

TEST(TensorCheckpoint, CopiesOutliveTheOriginal) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors(), 100);
  auto first = std::make_unique<TensorCheckpoint>(folder.path());
  const TensorCheckpoint second = *first;
  first.reset();
  expect_four_tensors(second);
}

TEST(TensorCheckpoint, NamesATensorThatIsNotThere) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors());
  const TensorCheckpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.find("z"), nullptr);
  expect_error([&] { checkpoint.view("z"); }, "expected a tensor \"z\", found none");
}

TEST(TensorCheckpoint, SaysWhichFilesItLooksFor) {
  const TemporaryFolder folder;
  expect_error(
      [&] { TensorCheckpoint{folder.path()}; },
      "expected one of model.safetensors, model.safetensors.index.json, pytorch_model.bin, "
      "pytorch_model.bin.index.json, found none of them");
  expect_error([&] { TensorCheckpoint{folder / "none"}; }, "no such file or folder");
}

struct BadIndex {
  const char* json;
  const char* message;
};

TEST(TensorCheckpoint, RefusesAnIndexThatLies) {
  const TemporaryFolder folder;
  write_safetensors(folder / "one.safetensors", {{"a", torch::ones(1)}, {"b", torch::ones(1)}});
  write_safetensors(folder / "two.safetensors", {{"c", torch::ones(1)}, {"a", torch::ones(1)}});
  const std::vector<BadIndex> cases = {
      {"[]", "expected an object, found an array"},
      {"{}", "weight_map: expected an object, found none"},
      {R"({"weight_map":[]})", "weight_map: expected an object, found an array"},
      {R"({"weight_map":{"a":1}})", "\"a\": expected a string, found the integer 1"},
      {R"({"weight_map":{"a":"../one.safetensors"}})", "expected the name of a file in the same"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "expected the name of a file in the same folder"},
      {R"({"weight_map":{"a":"x\\y"}})", "expected the name of a file in the same folder"},
      {R"({"weight_map":{"a":".."}})", "expected the name of a file in the same folder"},
      {R"({"weight_map":{"a":""}})", "expected the name of a file in the same folder"},
      {R"({"weight_map":{"a":"one.safetensors\u0000"}})", "expected the name of a file in"},
      {R"({"weight_map":{"a":"three.safetensors"}})", "cannot open"},
      {R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors","q":"one.safetensors"}})",
       "expected in the shards that it names, and missing there: \"q\""},
      {R"({"weight_map":{"a":"one.safetensors"}})", "not given to them by weight_map: \"b\""},
      {R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})",
       "not given to them by weight_map: \"a\""},
      {R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})", "appears twice"},
      {R"({"weight_map":)", "[json]"},
  };
  for (const BadIndex& bad : cases) {
    SCOPED_TRACE(bad.json);
    write_file(folder / "model.safetensors.index.json", bad.json);
    expect_error([&] { TensorCheckpoint{folder.path()}; }, bad.message);
  }
}

TEST(WriteCheckpoint, RemovesWhatAnEarlierOneLeft) {
  const TemporaryFolder folder;
  write_file(folder / "model-notes.txt", "kept");
  write_file(folder / "model-00001-of-00002.safetensors.bak", "kept");
  write_file(folder / "other-00001-of-00002.safetensors", "kept");
  const Names kept = folder.names();
  write_checkpoint(folder.path(), four_tensors(), 40);
  EXPECT_EQ(folder.names().size(), kept.size() + 5);
  write_checkpoint(folder.path(), four_tensors(), 100);
  EXPECT_EQ(folder.names().size(), kept.size() + 3);
  expect_four_tensors(TensorCheckpoint(folder.path()));
  write_checkpoint(folder.path(), four_tensors());
  EXPECT_EQ(folder.names().size(), kept.size() + 1);
  write_checkpoint(folder.path(), four_tensors(), 100);
  EXPECT_EQ(folder.names().size(), kept.size() + 3);
  expect_four_tensors(TensorCheckpoint(folder.path()));
}

TEST(WriteCheckpoint, LeavesTheOldOneWhenALaterShardFails) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), four_tensors(), 100);
  const Names before = folder.names();
  const auto fail = []() -> at::Tensor { TORCH_CHECK(false, "disk on fire"); };
  const std::vector<LazyTensor> tensors = {{"a", at::kFloat, {20}, [] { return torch::ones(20); }},
                                           {"b", at::kFloat, {20}, fail}};
  expect_error([&] { stream_checkpoint(folder.path(), tensors, 100); }, "disk on fire");
  EXPECT_EQ(folder.names(), before);
  expect_four_tensors(TensorCheckpoint(folder.path()));
}

TEST(WriteCheckpoint, RefusesOneNameTwiceAcrossShards) {
  const TemporaryFolder folder;
  expect_error(
      [&] {
        write_checkpoint(folder.path(), {{"a", torch::ones(9)}, {"a", torch::ones(9)}}, 36);
      },
      "two tensors are to be written as \"a\"");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace reprise::testing
