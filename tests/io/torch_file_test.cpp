// Files of torch.save: those that PyTorch wrote, and archives and pickles that lie.
#include "io/pickle/torch_header.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

std::filesystem::path torch_fixtures() {
  return fixtures() / "io" / "torch";
}

io::SafetensorsHeader parse(const std::string& file) {
  return io::parse_torch_header(std::as_bytes(std::span(file)), "x.bin");
}

template <class T>
std::string little(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

/// A file in an archive, with fields that can be wrong.
struct Stored {
  std::string name;
  std::string data;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t extra_bytes = 0;  ///< more than there are
};

std::string archive(const std::vector<Stored>& files) {
  std::string data, directory;
  for (const Stored& file : files) {
    const auto offset = static_cast<uint32_t>(data.size());
    const auto name_bytes = static_cast<uint16_t>(file.name.size());
    const auto bytes = static_cast<uint32_t>(file.data.size()) + file.extra_bytes;
    const std::string sizes =
        little(bytes) + little(bytes) + little(name_bytes) + little<uint16_t>(0);
    const std::string head = little<uint16_t>(0) + little(file.flags) + little(file.method) +
                             little<uint32_t>(0) + little<uint32_t>(0) + sizes;
    data += std::string("PK\3\4", 4) + head + file.name + file.data;
    directory += std::string("PK\1\2", 4) + little<uint16_t>(0) + head + std::string(10, '\0') +
                 little(offset) + file.name;
  }
  const auto count = static_cast<uint16_t>(files.size());
  return data + directory + std::string("PK\5\6", 4) + little<uint32_t>(0) + little(count) +
         little(count) + little(static_cast<uint32_t>(directory.size())) +
         little(static_cast<uint32_t>(data.size())) + little<uint16_t>(0);
}

std::string text(const std::string& value) {
  return "X" + little(static_cast<uint32_t>(value.size())) + value;
}

std::string number(int32_t value) {
  return "J" + little(value);
}

/// {"a": a float tensor of this size and stride} over a storage of so many elements.
std::string pickle(const std::string& size,
                   const std::string& stride,
                   int32_t offset = 0,
                   int32_t elements = 4) {
  const std::string storage = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
                              text("cpu") + number(elements) + "tQ";
  return "\x80\2}" + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) +
         size + stride + "\x89)tRs.";
}

std::string file_with(const std::string& data, const std::string& storage = std::string(16, '\1')) {
  return archive({{"x/data.pkl", data}, {"x/data/0", storage}});
}

TEST(TorchFile, HasTheTensorsThatPyTorchWrote) {
  const TensorFile file(torch_fixtures() / "pytorch_model.bin");
  const TensorFile expected(torch_fixtures() / "expected.safetensors");
  ASSERT_EQ(file.tensors().size(), expected.tensors().size());
  for (const TensorInfo& wanted : expected.tensors()) {
    const TensorInfo* const found = file.find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->dtype, wanted.dtype) << wanted.name;
    const auto a = file.view(*found), b = expected.view(wanted);
    EXPECT_TRUE(a.sizes() == b.sizes() && at::equal(a, b)) << wanted.name;
    auto copy = torch::empty(wanted.shape, wanted.dtype);
    file.copy_to(*found, copy);
    EXPECT_TRUE(at::equal(copy, b)) << wanted.name;
  }
}

TEST(TorchFile, TiedTensorsShareBytes) {
  const TensorFile file(torch_fixtures() / "pytorch_model.bin");
  EXPECT_EQ(file.find("embedding.weight")->begin, file.find("head.weight")->begin);
}

TEST(TorchFile, IsACheckpointWhereThereAreNoSafetensors) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(torch_fixtures() / "pytorch_model.bin", folder / "pytorch_model.bin");
  EXPECT_EQ(TensorCheckpoint(folder.path()).names().size(), 19u);
  write_file(folder / "pytorch_model.bin.index.json", R"({"weight_map": {}})");
  EXPECT_EQ(TensorCheckpoint(folder.path()).names().size(), 19u);  // the file counts more
  write_safetensors(folder / "model.safetensors", {{"only", torch::ones(1)}});
  EXPECT_EQ(TensorCheckpoint(folder.path()).names().size(), 1u);
}

TEST(TorchFile, MayBeAShard) {
  const TemporaryFolder folder;
  const std::string shard = "pytorch_model-00001-of-00001.bin";
  std::filesystem::copy_file(torch_fixtures() / "pytorch_model.bin", folder / shard);
  const TensorFile file(folder / shard);
  std::string map;
  for (const TensorInfo& info : file.tensors()) {
    map += (map.empty() ? "\"" : ", \"") + info.name + "\": \"" + shard + "\"";
  }
  write_file(folder / "pytorch_model.bin.index.json", "{\"weight_map\": {" + map + "}}");
  EXPECT_EQ(TensorCheckpoint(folder.path()).names().size(), 19u);
}

TEST(TorchFile, RefusesWhatIsNoDictionaryOfContiguousTensors) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"transposed",
       "\"a\": stride: expected 1 in dimension 1, found 3. Save the tensor after .contiguous()"},
      {"nested",
       "\"state_dict\": expected a tensor, found a dictionary. Save the state_dict alone"},
      {"object",
       "expected what torch.save writes for a dictionary of tensors, found the pickle instruction "
       "129"},
      {"list", "expected a dictionary of tensors, found a list"},
      {"number_as_name", "expected names of tensors, found an integer"},
      {"float8", "_rebuild_tensor_v3\", which is not run"},
      {"sparse", "torch.serialization _get_layout\", which is not run"}};
  for (const auto& [name, message] : cases) {
    expect_error(
        [name = name] { TensorFile{torch_fixtures() / "refused" / (std::string(name) + ".bin")}; },
        message);
  }
  expect_error([] { TensorFile{torch_fixtures() / "legacy.bin"}; },
               "was written by torch.save of PyTorch before 1.6. Convert it with: python3 -c");
}

TEST(TorchFile, ReadsAnArchiveOfOneTensor) {
  const auto header =
      parse(file_with(pickle(number(2) + number(2) + "\x86", number(2) + number(1) + "\x86")));
  ASSERT_EQ(header.tensors.size(), 1u);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(header.tensors[0].end - header.tensors[0].begin, 16u);
}

TEST(TorchFile, RefusesTensorsThatLie) {
  const std::string two = number(2) + "\x85", one = number(1) + "\x85";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {pickle(number(5) + "\x85", one),
       "expected 20 bytes from element 0 on, found a storage of 16 bytes"},
      {pickle(two, one, 3), "expected 8 bytes from element 3 on, found a storage of 16 bytes"},
      {pickle(number(-1) + "\x85", one), "size: expected whole numbers from 0, found -1"},
      {pickle(two, one, -1), "offset: expected whole numbers from 0, found -1"},
      {pickle(two, one, 0, 5), "expected a storage of 5 elements of 4 bytes, found 16 bytes"},
      {pickle(two, number(1) + number(1) + "\x86"), "stride: expected 1 numbers, found 2"},
      {pickle(text("2") + "\x85", one), "size: expected whole numbers from 0, found a string"},
      {pickle(two, "}"), "stride: expected a tuple of at most 64 numbers, found a dictionary"}};
  for (const auto& [data, message] : cases) {
    expect_error([&data = data] { parse(file_with(data)); }, message);
  }
}

TEST(TorchFile, RunsNoFunction) {
  expect_error([] { parse(file_with("\x80\2cos\nsystem\n" + text("true") + "\x85R.")); },
               "expected tensors, found a call of \"os system\", which is not run");
  expect_error([] { parse(file_with("\x80\2cos\nsystem\n" + text("true") + "\x85o.")); },
               "found the pickle instruction 111");
}

TEST(TorchFile, RefusesPicklesThatEndEarlyOrNestForever) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"", "expected 1 more bytes, found 0"},
      {"\x80\1.", "expected protocol 2 to 5, found 1"},
      {"\x80\2.", "expected a value on the stack, found none"},
      {"\x80\2t.", "expected a mark on the stack, found none"},
      {"\x80\2(.", "expected a value on the stack, found none"},
      {"\x80\2h\7.", "expected a value in the memo at 7, found none"},
      {"\x80\2X\xFF\xFF\xFF\xFF.", "expected a string of at most 65536 bytes"},
      {"\x80\2}(NNNu.", "expected keys and values, found 3 items"},
      {"\x80\2NNNs.", "expected a dictionary, found None"},
      {"\x80\2NQ.", "expected a tuple, found None"},
      {"\x80\2)" + std::string(1'100'000, '\x85'), "expected at most 1048576 values, found more"},
      {"\x80\2]q\1h\1a.", "expected a dictionary of tensors, found a list"}};
  for (const auto& [data, message] : cases) {
    expect_error([&data = data] { parse(file_with(data)); }, message);
  }
}

TEST(TorchFile, RefusesArchivesThatLie) {
  const std::string good = pickle(number(2) + "\x85", number(1) + "\x85");
  const std::string storage(16, '\1');
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"PK\3\4 and so on", "expected the end of a zip archive, found none"},
      {archive({{"x/data.pkl", good, 1}}),
       "expected it uncompressed, as torch.save writes it, found it encrypted"},
      {archive({{"x/data.pkl", good, 0, 8}}), "found it compressed"},
      {archive({{"x/data.pkl", good, 0, 0, 1u << 30}}), "\"x/data.pkl\" in the archive: expected"},
      {archive({{"x/data.pkl", good}, {"x/data.pkl", good}}),
       "two files in the archive are called \"x/data.pkl\""},
      {archive({{"x/data.pkl", good}, {"y/data.pkl", good}}),
       "expected one data.pkl in the archive, found two"},
      {archive({{"x/y/data.pkl", good}}), "expected data.pkl in the archive, found none"},
      {archive({{"x/data.pkl", good}}), "expected \"x/data/0\" in the archive, found none"},
      {archive({{"x/data.pkl", good}, {"x/data/0", storage}, {"x/byteorder", "big"}}),
       "byteorder: expected \"little\", found \"big\""}};
  for (const auto& [data, message] : cases) {
    expect_error([&data = data] { parse(data); }, message);
  }
}

// Whatever is accepted lies inside the file.
void expect_inside(const std::string& file) {
  try {
    for (const TensorInfo& info : parse(file).tensors) {
      ASSERT_LE(info.begin, info.end);
      ASSERT_LE(info.end, file.size());
    }
  } catch (const c10::Error&) {
  }
}

TEST(TorchFile, SurvivesEveryTruncationAndRandomDamage) {
  const std::string whole = read_file(torch_fixtures() / "pytorch_model.bin");
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    EXPECT_THROW(parse(whole.substr(0, bytes)), c10::Error);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    for (int change = 0; change < 3; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    expect_inside(damaged);
  }
}

}  // namespace
}  // namespace reprise::testing
