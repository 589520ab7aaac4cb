// A run, its final model and its cache of examples after a power failure at any moment. What was
// promised is there, and the run goes on from it as if nothing had happened, whatever is left of
// the cache. REPRISE_POWER_LOSS=all looks at the images after every operation, not only after some.
#include "power_loss/crash_images.h"
#include "power_loss/file_log.h"
#include "support/run_metrics.h"
#include "train/folder_files.h"
#include "train/loop/resume_case.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 4;

size_t stride() {
  return std::getenv("REPRISE_POWER_LOSS") == nullptr ? 11 : 1;
}

struct PromisingObserver : CollectingObserver {
  explicit PromisingObserver(FileLog& log) : log_(log) {}
  void on_save(const fs::path& folder) override { log_.note(folder.filename()); }

 private:
  FileLog& log_;
};

/// Trains to the end, or from a crash image on.
void finish_run(TrainingCase& run, TrainingObserver& observer) {
  run.options.save_steps = 1;
  run.options.save_total_limit = 2;
  run.resume_from = latest_checkpoint(run.options.output);
  run.train(observer);
}

Json short_run() {
  return usual_run("sft", kSteps);
}

int64_t step_of(const std::string& checkpoint) {
  return std::stoll(checkpoint.substr(checkpoint.rfind('-') + 1));
}

enum class CacheState { Absent, Torn, Whole };

/// Of the examples' cache in an image of a folder that ended up as `whole`.
CacheState cache_state(const CrashImage& image, const fs::path& whole) {
  bool is_whole = true, is_absent = true;
  for (const auto& [name, bytes] : files_of(whole / "cache")) {
    const auto found = image.files.find((fs::path("cache") / name).string());
    is_absent = is_absent && found == image.files.end();
    is_whole = is_whole && found != image.files.end() && found->second == bytes;
  }
  return is_whole ? CacheState::Whole : is_absent ? CacheState::Absent : CacheState::Torn;
}

TEST(PowerLoss, ARunGoesOnFromWhatItHasSaved) {
  const TemporaryFolder whole;
  std::vector<CrashImage> images;
  {
    FileLog log(whole.path());
    TrainingCase run("sft", short_run(), whole);
    PromisingObserver observer(log);
    finish_run(run, observer);
    images = crash_images(log.operations(), stride(), 3);
  }
  const auto expected = files_of(whole / "output" / "checkpoint-4");
  const auto metrics = computed_metrics(whole / "output");
  ASSERT_EQ(metrics.size(), kSteps);
  int64_t resumed = 0;
  std::map<CacheState, int64_t> caches;
  for (const auto& image : images) {
    const TemporaryFolder after;
    image.write_to(after.path());
    ++caches[cache_state(image, whole.path())];
    int64_t promised = 0;
    for (const auto& promise : image.promises) {
      promised = std::max(promised, step_of(promise));
    }
    TrainingCase run("sft", short_run(), after);
    const auto latest = latest_checkpoint(run.options.output);
    ASSERT_GE(latest.empty() ? 0 : step_of(latest), promised);
    CollectingObserver observer;
    ASSERT_EQ(error_of([&] { finish_run(run, observer); }), "");
    ASSERT_EQ(files_of(after / "output" / "checkpoint-4"), expected);
    ASSERT_EQ(computed_metrics(after / "output"), metrics);
    resumed += latest.empty() ? 0 : 1;
  }
  EXPECT_GT(resumed, 10);
  EXPECT_GT(caches[CacheState::Absent], 0);
  EXPECT_GT(caches[CacheState::Torn], 0);
  EXPECT_GT(caches[CacheState::Whole], 0);
  RecordProperty("images", static_cast<int>(images.size()));
}

TEST(PowerLoss, AModelIsWholeOnceItIsSaved) {
  const TemporaryFolder whole;
  std::vector<CrashImage> images;
  std::map<std::string, std::string> expected;
  {
    FileLog log(whole.path());
    TrainingCase run("sft", short_run(), whole);
    run.save(whole / "new" / "model");
    log.note("model");
    AtomicFolder folder(whole / "imported");
    run.save(folder.path());
    folder.commit();
    log.note("imported");
    images = crash_images(log.operations(), 1, 3);
    expected = files_of(whole / "imported");
  }
  for (const auto& image : images) {
    const TemporaryFolder after;
    image.write_to(after.path());
    if (image.promises.contains("model")) {
      ASSERT_EQ(files_of(after / "new" / "model"), expected);
    }
    const bool is_there = fs::exists(after / "imported");
    ASSERT_TRUE(is_there || !image.promises.contains("imported"));
    if (is_there) {
      ASSERT_EQ(files_of(after / "imported"), expected);
    }
  }
  EXPECT_GT(images.size(), 10u);
}

}  // namespace
}  // namespace reprise::testing
