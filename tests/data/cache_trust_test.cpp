// A cache is used only if nobody but this user can have written it, and if it is what was asked
// for; large files are known by all of their content.
#include "data/dataset/example_cache.h"
#include "data/dataset/remembered_hash.h"
#include "data/fake_rows.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;
using data::CacheRules;
using data::ExampleCache;
using data::ExampleCacheWriter;

constexpr uid_t kSomebodyElse = 12345;

class TrustedCache : public ::testing::Test {
 protected:
  TrustedCache() : options{.files = {{folder / "a.jsonl"}}, .cache = folder / "caches"} {
    write_numbers(folder / "a.jsonl", 0, 4);
  }

  bool is_from_cache() const { return data::open_rows(rows.rules(), options).report.from_cache; }
  fs::path cache() const { return fs::directory_iterator(options.cache)->path(); }

  TemporaryFolder folder;
  FakeRows rows;
  DatasetOptions options;
};

TEST_F(TrustedCache, IsClosedToOthersWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const bool first = is_from_cache();
  ::umask(before);
  EXPECT_FALSE(first);
  EXPECT_EQ(fs::status(cache()).permissions(), fs::perms(0700));
  for (const auto& entry : fs::directory_iterator(cache())) {
    EXPECT_EQ(entry.status().permissions(), fs::perms(0600)) << entry.path();
  }
  EXPECT_TRUE(is_from_cache());
}

TEST_F(TrustedCache, IsMadeAgainIfOthersMayHaveWrittenIt) {
  is_from_cache();
  for (const char* name : {"cache.json", "examples.bin", "index.bin"}) {
    for (const auto others : {fs::perms(0620), fs::perms(0602)}) {
      fs::permissions(cache() / name, others);
      EXPECT_FALSE(is_from_cache()) << name;
      EXPECT_TRUE(is_from_cache()) << name;
    }
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown((cache() / name).c_str(), kSomebodyElse, ::getegid()), 0);
      EXPECT_FALSE(is_from_cache()) << name;
      EXPECT_TRUE(is_from_cache()) << name;
    }
  }
}

TEST_F(TrustedCache, IsNotMadeInAFolderOfSomebodyElse) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder away";
  }
  is_from_cache();
  fs::permissions(cache(), fs::perms(0777));
  fs::remove(cache() / "cache.json");
  ASSERT_EQ(::chown(cache().c_str(), kSomebodyElse, ::getegid()), 0);
  expect_error([&] { is_from_cache(); }, cache().string() + ": is not a folder of this user");
}

TEST_F(TrustedCache, IsNotTakenForThatOfAnotherKey) {
  is_from_cache();
  const fs::path own = cache();
  options.max_samples = 2;
  is_from_cache();
  fs::path other;
  for (const auto& entry : fs::directory_iterator(options.cache)) {
    other = entry.path() == own ? other : entry.path();
  }
  fs::remove_all(other);
  fs::copy(own, other);
  EXPECT_FALSE(is_from_cache());
}

std::vector<int64_t> ids_of_length(int64_t length) {
  std::vector<int64_t> ids(static_cast<size_t>(length));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(ExampleCacheLimits, RefuseASequenceLongerThanItsOptionsAllow) {
  const TemporaryFolder folder;
  const CacheRules rules{.key = "k", .max_length = 1024};
  for (const int64_t length : {1024, 1025, 100'000}) {
    ExampleCacheWriter writer(folder.path(), rules);
    writer.add(example_of(ids_of_length(3)));
    writer.add(example_of(ids_of_length(length)));
    writer.commit(nullptr);
    EXPECT_EQ(ExampleCache::open(folder.path(), rules) != nullptr, length == 1024) << length;
  }
  EXPECT_EQ(ExampleCache::open(folder.path(), {.key = "k", .max_length = 200'000}), nullptr);
}

TEST(ExampleCacheLimits, NameTheFileIfItBecomesShorterWhileItIsInUse) {
  const TemporaryFolder folder;
  const CacheRules rules{.key = "k", .max_length = 0};
  ExampleCacheWriter writer(folder.path(), rules);
  writer.add(example_of(ids_of_length(100'000)));
  writer.commit(nullptr);
  const auto cache = ExampleCache::open(folder.path(), rules);
  ASSERT_NE(cache, nullptr);
  fs::resize_file(folder / "examples.bin", 1000);
  expect_error([&] { cache->at(0); },
               (folder / "examples.bin").string() + ": became shorter while it was in use");
}

class LargeFile : public ::testing::Test {
 protected:
  LargeFile() {
    std::ofstream(file) << "{}\n";
    fs::resize_file(file, (size_t{64} << 20) + 5);  // sparse
  }

  /// Leaves size, beginning, end and time of modification as they are.
  void change_the_middle() {
    const auto time = fs::last_write_time(file);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(40 << 20) << "x";
    fs::last_write_time(file, time);
  }

  std::string remembered() const {
    return data::remembered_hash(
        file, folder / "cache", std::chrono::system_clock::now() + std::chrono::hours(1));
  }

  TemporaryFolder folder;
  fs::path file = folder / "large.jsonl";
};

TEST_F(LargeFile, IsKnownByItsMiddleToo) {
  const std::string before = content_hash({file}, {}, folder / "cache");
  EXPECT_EQ(content_hash({file}, {}, folder / "cache"), before);
  EXPECT_EQ(content_hash({file}, {}), before);
  EXPECT_FALSE(fs::exists(folder / "cache")) << "the file is too young to be remembered";
  change_the_middle();
  EXPECT_NE(content_hash({file}, {}, folder / "cache"), before);
}

TEST_F(LargeFile, IsRememberedUntilItIsTouched) {
  const std::string before = remembered();
  const fs::path stored = fs::directory_iterator(folder / "cache" / "contents")->path();
  EXPECT_EQ(read_file(stored), before);
  const std::string planted(before.size(), 'a');
  std::ofstream(stored) << planted;
  EXPECT_EQ(remembered(), planted) << "not read from what was stored";
  fs::permissions(stored, fs::perms(0666));
  EXPECT_EQ(remembered(), before) << "somebody else may have written it";
  change_the_middle();
  EXPECT_NE(remembered(), before);
}

}  // namespace
}  // namespace reprise::testing
