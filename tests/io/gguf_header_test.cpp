// GGUF headers: every kind of value, and every field as a lie.
#include "io/gguf/gguf_header.h"
#include "io/gguf_bytes.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ80 = 8;
constexpr uint32_t kUint8 = 0;
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

io::GgufHeader parse_gguf(const std::string& file) {
  return io::parse_gguf_header(std::as_bytes(std::span(file)), "x.gguf");
}

TEST(GgufHeader, ReadsEveryKindOfValue) {
  const auto header = parse_gguf(read_file(fixtures() / "io/quantized.gguf"));
  const auto value = [&](const char* name) {
    return header.metadata.at(std::string("test.") + name);
  };
  EXPECT_EQ(value("uint8"), Json(200));
  EXPECT_EQ(value("int8"), Json(-100));
  EXPECT_EQ(value("uint16"), Json(60000));
  EXPECT_EQ(value("int16"), Json(-30000));
  EXPECT_EQ(value("uint32"), Json(4000000000));
  EXPECT_EQ(value("int32"), Json(-2000000000));
  EXPECT_EQ(value("uint64"), Json(uint64_t{1} << 63));
  EXPECT_EQ(value("int64"), Json(-(int64_t{1} << 62)));
  EXPECT_EQ(value("float32"), Json(0.1F));
  EXPECT_EQ(value("float64"), Json(0.1));
  EXPECT_EQ(value("bool"), Json(true));
  EXPECT_EQ(value("string"), Json("größer"));
  EXPECT_EQ(value("strings"), (Json{"a", "", "ä"}));
  EXPECT_EQ(value("integers"), (Json{1, -2, 3}));
}

TEST(GgufHeader, ReadsVersionTwoAndNestedArrays) {
  GgufBytes file;
  file.version = 2;
  const std::string row = packed(kUint8) + packed(uint64_t{2}) + "\5\6";
  file.array("rows", kArray, 2, row + row);
  EXPECT_EQ(parse_gguf(file.bytes()).metadata.at("rows"), Json::parse("[[5,6],[5,6]]"));
}

TEST(GgufHeader, PlacesTensorsByTheAlignmentOfTheFile) {
  GgufBytes file;
  file.value("general.alignment", kUint32, packed(uint32_t{64}));
  file.tensor("b", {2, 3}, kF32, 64).tensor("a", {32}, kQ80, 0).data(88);
  const auto header = parse_gguf(file.bytes(64));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(header.tensors[0].begin % 64, 0u);
  EXPECT_EQ(header.tensors[0].end - header.tensors[0].begin, 24u);
  EXPECT_EQ(header.tensors[1].end - header.tensors[1].begin, 34u);
}

struct HostileGguf {
  GgufBytes file;
  const char* message;
};

TEST(GgufHeader, RefusesHostileMetadata) {
  const auto nested = [] {
    std::string bytes;
    for (int i = 0; i < 4; ++i) {
      bytes += packed(kArray) + packed(uint64_t{1});
    }
    return bytes + packed(kUint8) + packed(uint64_t{1}) + "\1";
  };
  const std::vector<HostileGguf> cases = {
      {{.magic = "GGML"}, "expected a file that begins with \"GGUF\""},
      {{.version = 1}, "expected GGUF version 2 or 3, found 1"},
      {{.version = 4}, "expected GGUF version 2 or 3, found 4"},
      {{.version = 0}, "expected GGUF version 2 or 3, found 0"},
      {{.version = 0x03000000}, "expected a little-endian file, found a big-endian one"},
      {{.extra_values = 1}, "the key of value 0: expected 8 bytes"},
      {{.extra_values = UINT64_MAX}, "the key of value 0: expected 8 bytes"},
      {{.values = {packed(UINT64_MAX)}}, "expected a string of at most 65535 bytes"},
      {{.values = {packed(uint64_t{60000})}}, "expected 60000 bytes at 32, found 0"},
      {GgufBytes().value("k", 13, ""), "key \"k\": expected a value type from 0 to 12, found 13"},
      {GgufBytes().value("k", kBool, "\2"), "key \"k\": expected a bool of 0 or 1, found 2"},
      {GgufBytes().value("k", kUint32, "ab"), "key \"k\": expected 4 bytes"},
      {GgufBytes().value("k", kString, packed(UINT64_MAX)), "key \"k\": expected a string of at"},
      {GgufBytes().value("k", kString, packed(uint64_t{20})), "key \"k\": expected 20 bytes"},
      {GgufBytes().array("k", kUint8, UINT64_MAX, ""), "expected at most 16777216 elements"},
      {GgufBytes().array("k", kUint8, 1 << 24, "abc"), "key \"k\": expected 1 bytes"},
      {GgufBytes().array("k", kUint8, 4, "abcd").array("l", kUint8, 1 << 24, ""),
       "key \"l\": expected at most 16777216 elements in all arrays"},
      {GgufBytes().array("k", kArray, 1, nested()), "arrays are nested more than 4 deep"},
      {GgufBytes().string("k", "a").string("k", "b"), "key \"k\" appears twice"},
      {GgufBytes().value("general.alignment", kUint32, packed(uint32_t{0})),
       "general.alignment: expected a power of two up to 1048576, found the integer 0"},
      {GgufBytes().value("general.alignment", kUint32, packed(uint32_t{48})),
       "found the integer 48"},
      {GgufBytes().value("general.alignment", kUint32, packed(uint32_t{1U << 31})),
       "a power of two"},
      {GgufBytes().string("general.alignment", "32"), "found a string"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    expect_error([&] { parse_gguf(cases[i].file.bytes()); }, cases[i].message);
  }
}

TEST(GgufHeader, RefusesHostileTensors) {
  const int64_t huge = int64_t{1} << 40;
  const std::vector<HostileGguf> cases = {
      {{.extra_tensors = 1}, "the name of tensor 0: expected 8 bytes"},
      {{.tensors = {packed(uint64_t{5000})}},
       "expected a string of at most 1024 bytes, found 5000"},
      {GgufBytes().tensor("t", {1, 1, 1, 1, 1}, kF32, 0), "expected at most 4 dimensions, found 5"},
      {GgufBytes().tensor("t", {0}, kF32, 0), "expected dimensions from 1"},
      {GgufBytes().tensor("t", {-1}, kF32, 0), "expected dimensions from 1"},
      {GgufBytes().tensor("t", {huge, huge}, kF32, 0), "whose product fits 60 bits"},
      {GgufBytes().tensor("t", {INT64_MAX}, kF32, 0), "whose product fits 60 bits"},
      {GgufBytes().tensor("t", {1}, 13, 0),
       "tensor \"t\": expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q6_K, found Q5_K"},
      {GgufBytes().tensor("t", {1}, 4, 0), "found type 4"},
      {GgufBytes().tensor("t", {1}, 4096, 0), "found type 4096"},
      {GgufBytes().tensor("t", {33}, kQ80, 0).data(68),
       "expected rows of a multiple of 32 elements"},
      {GgufBytes().tensor("t", {1}, kF32, 4).data(8),
       "expected an offset that is a multiple of 32"},
      {GgufBytes().tensor("t", {9}, kF32, 0).data(32),
       "expected 36 bytes at 0 of the data, found 32"},
      {GgufBytes().tensor("t", {1}, kF32, 64).data(64), "the file is truncated"},
      {GgufBytes().tensor("t", {1}, kF32, UINT64_MAX - 31).data(64), "the file is truncated"},
      {GgufBytes().tensor("t", {1}, kF32, 0), "the file is truncated"},
      {GgufBytes().tensor("t", {huge}, kF32, 0).data(64), "the file is truncated"},
      {GgufBytes().tensor("t", {9}, kF32, 0).tensor("u", {1}, kF32, 32).data(64),
       "tensor \"u\" overlaps \"t\""},
      {GgufBytes().tensor("t", {1}, kF32, 0).tensor("u", {1}, kF32, 0).data(64), "overlaps"},
      {GgufBytes().tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).data(64),
       "tensor \"t\" appears twice"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    expect_error([&] { parse_gguf(cases[i].file.bytes()); }, cases[i].message);
  }
}

TEST(GgufHeader, RefusesAFileCutAnywhere) {
  const std::string whole = read_file(fixtures() / "io/quantized.gguf");
  // After the last tensor there may be padding, which nobody misses.
  uint64_t end = 0;
  for (const io::GgufTensor& tensor : parse_gguf(whole).tensors) {
    end = std::max(end, tensor.end);
  }
  for (size_t length = 0; length < end; ++length) {
    EXPECT_NE(error_of([&] { parse_gguf(whole.substr(0, length)); }), "") << length;
  }
}

}  // namespace
}  // namespace reprise::testing
