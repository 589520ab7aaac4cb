// Headers that lie, in every field: each is refused by what is wrong with it.
#include "io/safetensors/safetensors_header.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

std::string file_with(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\1');
}

io::SafetensorsHeader parse_safetensors(const std::string& file) {
  return io::parse_safetensors_header(std::as_bytes(std::span(file)), "x.safetensors");
}

TEST(SafetensorsHeader, GivesTensorsInTheOrderOfTheirBytes) {
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
                             R"("__metadata__":{"format":"pt"},)"
                             R"("a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
                             R"("none":{"dtype":"F64","shape":[0,3],"data_offsets":[4,4]}}   )";
  const auto parsed = parse_safetensors(file_with(header, 12));
  ASSERT_EQ(parsed.tensors.size(), 3u);
  EXPECT_EQ(parsed.tensors[0].name, "a");
  EXPECT_EQ(parsed.tensors[1].name, "none");
  EXPECT_EQ(parsed.tensors[2].name, "b");
  EXPECT_EQ(parsed.tensors[2].dtype, at::kFloat);
  EXPECT_EQ(parsed.tensors[2].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(parsed.tensors[2].begin, 8 + header.size() + 4);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, MayBeEmpty) {
  EXPECT_TRUE(parse_safetensors(file_with("{}", 0)).tensors.empty());
}

struct HostileHeader {
  const char* header;
  size_t data_bytes;
  const char* message;
};

TEST(SafetensorsHeader, RefusesHostileFields) {
  const std::vector<HostileHeader> cases = {
      // the JSON
      {"", 0, "expected a header that begins with '{'"},
      {" {}", 0, "expected a header that begins with '{'"},
      {"[]", 0, "expected a header that begins with '{'"},
      {"{", 0, "[json] x.safetensors (header):1:2"},
      {"{}x", 0, "[json] x.safetensors (header):1:3"},
      {R"({"a":[[[[[[[[[[]]]]]]]]]]})", 0, "nested more than 8 deep"},
      {R"({"a":1,"a":1})", 0, "the key \"a\" appears twice"},
      {"{\"\xff\":1}", 0, "[json] x.safetensors (header):1:3"},
      // the entry
      {R"({"a":1})", 0, "tensor \"a\": expected an object, found the integer 1"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "expected a field \"dtype\", found none"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "expected a field \"shape\""},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "expected a field \"data_offsets\""},
      // dtype
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype: expected a string"},
      {R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})", 4, "BF16, I32, U32, F32, F64"},
      {R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "found \"f32\""},
      // shape
      {R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4, "shape: expected an array"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "found the integer -1"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "found the number 1.0"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "found a string"},
      {R"({"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}})", 4, "found true"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
       4,
       "shape: expected whole numbers from 0"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
       0,
       "do not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[0,9223372036854775807,8],"data_offsets":[0,0]}})",
       0,
       "do not fit 63 bits"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
         1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
       4,
       "expected at most 64 numbers, found 65"},
      // data_offsets
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
       4,
       "expected two numbers, found 1"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "expected two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "expected begin <= end"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
       8,
       "expected 4 bytes for [1] of F32, found 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]}})",
       4,
       "(a hole)"},
      // tiling
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
          "b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6,
       "tensor \"b\": data_offsets: expected to begin at 4, where the tensor before it ends, found "
       "2 "
       "(an overlap)"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
          "b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4,
       "(an overlap)"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, "(a hole)"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3, "the file is truncated"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       5,
       "bytes follow the last tensor"},
      {"{}", 1, "bytes follow the last tensor"},
      // metadata
      {R"({"__metadata__":[]})", 0, "__metadata__: expected an object, found an array"},
      {R"({"__metadata__":{"a":1}})", 0, "\"a\": expected a string, found the integer 1"},
      {R"({"__metadata__":{"a":{}}})", 0, "\"a\": expected a string, found an object"},
  };
  for (const HostileHeader& hostile : cases) {
    SCOPED_TRACE(hostile.header);
    expect_error([&] { parse_safetensors(file_with(hostile.header, hostile.data_bytes)); },
                 hostile.message);
  }
}

TEST(SafetensorsHeader, RefusesHostileLengths) {
  expect_error([] { parse_safetensors(""); }, "expected a file of at least 8 bytes, found 0");
  expect_error([] { parse_safetensors("1234567"); },
               "expected a file of at least 8 bytes, found 7");
  expect_error([] { parse_safetensors(std::string(8, '\xff')); },
               "expected a header of at most 100000000 bytes");
  const std::string longer("\x09\0\0\0\0\0\0\0{}      ", 16);
  expect_error([&] { parse_safetensors(longer); }, "expected a header of 9 bytes, found 8 bytes");
}

TEST(SafetensorsHeader, RefusesAFileCutAnywhere) {
  const std::string whole = read_file(fixtures() / "io/reference.safetensors");
  EXPECT_EQ(error_of([&] { parse_safetensors(whole); }), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of([&] { parse_safetensors(whole.substr(0, length)); }), "") << length;
  }
}

TEST(SafetensorsHeader, ShortensWhatAHostileNameWouldPrint) {
  const std::string name(100'000, 'n');
  const std::string message =
      error_of([&] { parse_safetensors(file_with("{\"" + name + "\":1}", 0)); });
  EXPECT_NE(message, "");
  EXPECT_LT(message.size(), 1000u);
}

}  // namespace
}  // namespace reprise::testing
