// Files that changed on disk since they were written.
#include "io/checksums.h"

#include "support/temporary_folder.h"

#include <reprise/dist/world.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{16} << 20;

class Checksums : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "empty", "");
    write_file(folder_ / "small", "abc");
    fs::create_directory(folder_ / "critic");
    write_file(folder_ / "critic" / "large", std::string(2 * kChunkBytes + 5, 'q'));
    io::write_checksums(folder_.path());
  }
  void expect_refused(const std::string& reason) const {
    expect_error([&] { io::verify_checksums(folder_.path(), World::single()); }, reason);
  }
  void expect_refused_with(const Json& checksums, const std::string& reason) const {
    write_json(folder_ / "checksums.json", checksums);
    expect_refused(reason);
  }

  TemporaryFolder folder_;
};

TEST_F(Checksums, HoldForFilesAsTheyWereWritten) {
  io::verify_checksums(folder_.path(), World::single());
  const Json json = read_json(folder_ / "checksums.json");
  EXPECT_EQ(json["files"]["small"]["crc32"], Json::array({"352441c2"}));  // zlib's own of "abc"
  EXPECT_EQ(json["files"]["empty"]["crc32"], Json::array());
  EXPECT_EQ(json["files"]["critic/large"]["crc32"].size(), 3u);
  EXPECT_FALSE(json["files"].contains("checksums.json"));
}

TEST_F(Checksums, FindEveryChangedByteAndSayWhere) {
  for (const size_t byte : {size_t{0}, kChunkBytes - 1, kChunkBytes, 2 * kChunkBytes + 4}) {
    std::string bytes(2 * kChunkBytes + 5, 'q');
    bytes[byte] ^= 1;
    write_file(folder_ / "critic" / "large", bytes);
    expect_refused("large: has changed since it was written, between byte " +
                   std::to_string(byte / kChunkBytes * kChunkBytes));
  }
}

TEST_F(Checksums, FindFilesThatAreMissingOrHaveAnotherLength) {
  write_file(folder_ / "small", "abcd");
  expect_refused("small: expected 3 bytes, found 4");
  fs::remove(folder_ / "small");
  expect_refused("small: is missing");
}

TEST_F(Checksums, AreNotTrustedThemselves) {
  const Json good = read_json(folder_ / "checksums.json");
  expect_refused_with(Json::array(), "expected the checksums of files");
  Json changed = good;
  changed["chunk_bytes"] = 1;
  expect_refused_with(changed, "expected the checksums of files");
  changed = good;
  changed["files"]["../outside"] = good["files"]["small"];
  expect_refused_with(changed, "../outside: expected the length and the sums of a file");
  changed = good;
  changed["files"]["/etc/hostname"] = good["files"]["small"];
  expect_refused_with(changed, "expected the length and the sums of a file");
  changed = good;
  changed["files"]["small"]["bytes"] = -3;
  expect_refused_with(changed, "expected the length and the sums of a file");
  changed = good;
  changed["files"]["small"]["bytes"] = uint64_t{1} << 63;
  expect_refused_with(changed, "expected a sum for each");
  changed = good;
  changed["files"]["small"]["crc32"] = {"352441cg"};
  expect_refused_with(changed, "expected sums of 8 hexadecimal digits");
}

}  // namespace
}  // namespace reprise::testing
