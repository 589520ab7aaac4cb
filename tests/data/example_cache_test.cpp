// Caches: found again when nothing has changed, made again when anything has, and never trusted
// when their bytes are not what was written.
#include "data/dataset/example_cache.h"
#include "data/fake_rows.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using data::ExampleCache;
using data::ExampleCacheWriter;

/// Every field in use, and both forms of labels.
std::vector<Example> various_examples() {
  Example pair{
      .sequences = {{.ids = {1, 2, 3}, .labels = {-100, 2, 3}, .soft_labels = {}, .prompt = 1},
                    {.ids = {1, 4}, .labels = {-100, 4}, .soft_labels = {}, .prompt = 1}},
      .margin = 0.25F,
      .desirable = true,
      .location = {.file = 0, .line = 3}};
  Example steps{.sequences = {{.ids = {5, 6, 7, 8, 9, 10, 11, 12, 13},
                               .labels = {-100, 1, -100, 0, -100, -100, 1, -100, 0},
                               .soft_labels = {0, 0.5F, 0, 1, 0, 0, 0.125F, 0, 0},
                               .prompt = 0}},
                .margin = 0,
                .desirable = false,
                .location = {.file = 0, .line = int64_t{1} << 40}};
  Example empty{.sequences = {{}}, .margin = 0, .desirable = true, .location = {}};
  return {pair, steps, empty};
}

void expect_same_example(const Example& found, const Example& expected) {
  ASSERT_EQ(found.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < expected.sequences.size(); ++i) {
    EXPECT_EQ(found.sequences[i].ids, expected.sequences[i].ids);
    EXPECT_EQ(found.sequences[i].labels, expected.sequences[i].labels);
    EXPECT_EQ(found.sequences[i].soft_labels, expected.sequences[i].soft_labels);
    EXPECT_EQ(found.sequences[i].prompt, expected.sequences[i].prompt);
  }
  EXPECT_EQ(found.margin, expected.margin);
  EXPECT_EQ(found.desirable, expected.desirable);
  EXPECT_EQ(found.location.line, expected.location.line);
}

const data::CacheRules kRules{.key = "key", .max_length = 0};

void write_cache(const std::filesystem::path& folder, const std::vector<Example>& examples) {
  ExampleCacheWriter writer(folder, kRules);
  for (const Example& example : examples) {
    writer.add(example);
  }
  writer.commit({{"rows", examples.size()}});
}

/// At once, without waiting for the disk: it is done for every byte.
void overwrite(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms(0600));  // whatever the umask
}

TEST(ExampleCache, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  const auto examples = various_examples();
  write_cache(folder.path(), examples);
  const auto cache = ExampleCache::open(folder.path(), kRules);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->size(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    expect_same_example(cache->at(i), examples[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(cache->longest(0), 3);
  EXPECT_EQ(cache->longest(1), 9);
  EXPECT_EQ(cache->report(), Json({{"rows", 3}}));
}

TEST(ExampleCache, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    ExampleCacheWriter writer(folder.path(), kRules);
    writer.add(various_examples()[0]);
  }
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(ExampleCache::open(folder.path(), kRules), nullptr);
  EXPECT_EQ(ExampleCache::open(folder / "none", kRules), nullptr);
}

TEST(ExampleCache, RefusesExamplesThatDoNotFit) {
  const TemporaryFolder folder;
  ExampleCacheWriter writer(folder.path(), kRules);
  Example example = various_examples()[1];
  example.sequences[0].labels.pop_back();
  expect_error([&] { writer.add(example); }, "expected as many labels as ids (9), found 8");
  example = various_examples()[1];
  example.sequences[0].soft_labels.push_back(0);
  expect_error([&] { writer.add(example); }, "expected as many soft labels as ids (9) or none");
  example = various_examples()[1];
  example.sequences[0].prompt = 10;
  expect_error([&] { writer.add(example); }, "expected a prompt of at most all ids (9), found 10");
  example = various_examples()[1];
  example.sequences[0].ids[0] = int64_t{std::numeric_limits<int32_t>::max()} + 1;
  expect_error([&] { writer.add(example); }, "expected a token id of 32 bits, found 2147483648");
}

TEST(ExampleCache, IsNotOpenedWhenAFileWasCutOff) {
  const TemporaryFolder folder;
  write_cache(folder.path(), various_examples());
  for (const auto name : {"examples.bin", "index.bin", "cache.json"}) {
    const std::string whole = read_file(folder / name);
    for (size_t size = 0; size + 1 < whole.size(); size += 7) {  // a final newline is no loss
      overwrite(folder / name, whole.substr(0, size));
      ASSERT_EQ(ExampleCache::open(folder.path(), kRules), nullptr) << name << " of " << size;
    }
    std::filesystem::remove(folder / name);
    EXPECT_EQ(ExampleCache::open(folder.path(), kRules), nullptr) << name;
    overwrite(folder / name, whole);
    EXPECT_NE(ExampleCache::open(folder.path(), kRules), nullptr) << name;
  }
}

TEST(ExampleCache, SeesEveryByteThatWasAltered) {
  const TemporaryFolder folder;
  write_cache(folder.path(), various_examples());
  for (const auto name : {"index.bin", "cache.json"}) {
    const std::string whole = read_file(folder / name);
    for (size_t i = 0; i + 1 < whole.size(); ++i) {  // a final newline is no loss
      std::string altered = whole;
      altered[i] ^= 4;
      overwrite(folder / name, altered);
      ASSERT_EQ(ExampleCache::open(folder.path(), kRules), nullptr) << name << " " << i;
    }
    overwrite(folder / name, whole);
  }
  const std::string records = read_file(folder / "examples.bin");
  for (size_t i = 0; i < records.size(); ++i) {
    std::string altered = records;
    altered[i] ^= 4;
    overwrite(folder / "examples.bin", altered);
    const auto cache = ExampleCache::open(folder.path(), kRules);
    int refused = 0;
    for (int64_t k = 0; k < cache->size(); ++k) {
      refused += error_of([&] { cache->at(k); }).find("not what was written") != std::string::npos;
    }
    ASSERT_EQ(refused, 1) << i;
  }
}

TEST(ExampleCache, IsNotOpenedWithADescriptionOfSomethingElse) {
  const TemporaryFolder folder;
  write_cache(folder.path(), various_examples());
  const Json whole = read_json(folder / "cache.json");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"format", 3},
                                                 {"version", data::kCacheVersion + 1},
                                                 {"version", "x"},
                                                 {"examples", 2},
                                                 {"bytes", nullptr}}) {
    Json changed = whole;
    changed[key] = value;
    write_json(folder / "cache.json", changed);
    EXPECT_EQ(ExampleCache::open(folder.path(), kRules), nullptr) << key << " " << value;
  }
}

class CachedDataset : public ::testing::Test {
 protected:
  CachedDataset() : options{.files = {{folder / "a.jsonl"}}, .cache = folder / "caches"} {
    write_numbers(folder / "a.jsonl", 0, 4);
  }

  OpenedDataset open() const { return data::open_rows(rows.rules(), options); }
  bool is_from_cache() const { return open().report.from_cache; }

  TemporaryFolder folder;
  FakeRows rows;
  DatasetOptions options;
};

TEST_F(CachedDataset, IsNotReadAgainAndIsTheSame) {
  write_file(folder / "a.jsonl", "{\"ids\": [1, 2]}\n{\"ids\": []}\nx\n{\"ids\": [3]}\n");
  options.skip_bad_rows = true;
  const auto fresh = open();
  const int64_t seen = *rows.seen;
  const auto again = open();
  EXPECT_EQ(*rows.seen, seen);
  EXPECT_TRUE(again.report.from_cache);
  ASSERT_EQ(again.dataset->size(), fresh.dataset->size());
  for (int64_t i = 0; i < fresh.dataset->size(); ++i) {
    expect_same_example(again.dataset->at(i), fresh.dataset->at(i));
  }
  EXPECT_EQ(again.report.rows, fresh.report.rows);
  EXPECT_EQ(again.report.dropped, fresh.report.dropped);
  EXPECT_EQ(again.report.bad_rows, fresh.report.bad_rows);
  EXPECT_EQ(again.report.bad_row_count, fresh.report.bad_row_count);
  EXPECT_EQ(again.report.format, fresh.report.format);
}

TEST_F(CachedDataset, IsReadAgainWhenTheFileChanges) {
  open();
  const auto time = std::filesystem::last_write_time(folder / "a.jsonl");
  write_numbers(folder / "a.jsonl", 5, 4);  // as long as before
  std::filesystem::last_write_time(folder / "a.jsonl", time);
  EXPECT_EQ(first_ids(*open().dataset), (std::vector<int64_t>{5, 6, 7, 8}));
}

TEST_F(CachedDataset, IsReadAgainWhenAnOptionChanges) {
  open();
  const auto expect_fresh = [&] {
    EXPECT_FALSE(is_from_cache());
    EXPECT_TRUE(is_from_cache());
  };
  options.tokenizer_key = "another";
  expect_fresh();
  options.skip_bad_rows = true;
  expect_fresh();
  options.max_samples = 2;
  expect_fresh();
  rows.key = {{"max_length", 5}};
  expect_fresh();
}

TEST_F(CachedDataset, IsFoundForAMovedFileAndOtherWeights) {
  open();
  std::filesystem::rename(folder / "a.jsonl", folder / "b.jsonl");
  std::filesystem::last_write_time(folder / "b.jsonl", std::chrono::file_clock::now());
  options.files = {{folder / "b.jsonl", 2}, {folder / "b.jsonl", 1}};
  options.seed = 7;
  const auto opened = open();
  EXPECT_TRUE(opened.report.from_cache);
  EXPECT_EQ(opened.dataset->location_name({0, 2}), (folder / "b.jsonl").string() + ":2");
}

TEST_F(CachedDataset, IsMadeAgainWhenItsReportWasAltered) {
  open();
  const auto cache = std::filesystem::directory_iterator(options.cache)->path();
  const auto path = cache / "cache.json";
  Json description = read_json(path);
  description["report"]["rows"] = "many";
  write_json(path, description);
  EXPECT_FALSE(is_from_cache());
  EXPECT_TRUE(is_from_cache());
}

/// The number of a process that is no more.
int64_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(CachedDataset, SweepsAwayWhatKilledProcessesLeftHalfWritten) {
  open();
  const auto cache = std::filesystem::directory_iterator(options.cache)->path();
  const std::string dead = std::to_string(dead_process());
  const std::string alive = std::to_string(::getpid());
  using std::chrono::hours;
  struct File {
    std::filesystem::path path;
    hours age;
    bool stays;
  };
  const std::vector<File> files = {
      {cache / (".examples.bin." + dead + ".0"), hours(1), false},
      {options.cache / (".reference-1.safetensors." + dead + ".12"), hours(1), false},
      {cache / (".index.bin." + alive + ".7"), hours(25), false},  // the number was given again
      {cache / (".index.bin." + alive + ".8"), hours(1), true},
      {cache / (".examples.bin." + dead + ".1"), hours(0), true},  // of another machine perhaps
      {cache / ("notes." + dead + ".1"), hours(25), true},
      {cache / (".notes." + dead), hours(25), true},
      {cache / (".notes." + dead + ".x"), hours(25), true},
  };
  for (const File& file : files) {
    overwrite(file.path, "half");
    std::filesystem::last_write_time(file.path, std::chrono::file_clock::now() - file.age);
  }
  EXPECT_TRUE(is_from_cache());
  for (const File& file : files) {
    EXPECT_EQ(std::filesystem::exists(file.path), file.stays) << file.path;
  }
}

TEST_F(CachedDataset, MayBeMadeBySeveralAtOnce) {
  write_numbers(folder / "a.jsonl", 0, 300);
  std::vector<std::vector<int64_t>> found(3);
  std::vector<std::thread> threads;
  for (auto& ids : found) {
    threads.emplace_back([&] { ids = first_ids(*open().dataset); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(found[0].size(), 300u);
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
}

}  // namespace
}  // namespace reprise::testing
