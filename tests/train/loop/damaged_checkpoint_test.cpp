// Checkpoints with bytes, numbers or lines of logs that are not those that were written.
#include "io/checksums.h"
#include "support/temporary_folder.h"
#include "train/folder_files.h"
#include "train/loop/resume_case.h"

#include <reprise/io/file.h>
#include <reprise/report/metrics_file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override { checkpoint_ = train_until(kPlain, 2, folder_) / "checkpoint-2"; }

  std::string resume_error(const ResumeCase& as = kPlain) const {
    return error_of([&] { train_until(as, 4, folder_); });
  }
  void expect_named(const std::string& what) const {
    const std::string error = resume_error();
    EXPECT_NE(error.find(what), std::string::npos) << what << " in: " << error;
  }

  TemporaryFolder folder_;
  fs::path checkpoint_;
};

TEST_F(DamagedCheckpoint, SaysWhichFileIsMissing) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"}) {
    fs::rename(checkpoint_ / file, folder_ / "aside");
    expect_named(file);
    fs::rename(folder_ / "aside", checkpoint_ / file);
  }
  EXPECT_EQ(resume_error(), "");  // whole again
}

TEST_F(DamagedCheckpoint, SaysWhichFileIsCutShort) {
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "rng.safetensors", "trainer_state.json"}) {
    const std::string bytes = read_file(checkpoint_ / file);
    write_file(checkpoint_ / file, std::string_view(bytes).substr(0, bytes.size() / 2));
    expect_named(file);
    write_file(checkpoint_ / file, bytes);
  }
}

TEST_F(DamagedCheckpoint, SaysWhichFieldIsWrong) {
  Json state = read_json(checkpoint_ / "trainer_state.json");
  for (const char* field : {"step", "tokens", "best_step", "evaluations_without_best"}) {
    Json changed = state;
    changed[field] = -1;
    write_json(checkpoint_ / "trainer_state.json", changed);
    io::write_checksums(checkpoint_);
    expect_named(std::string(field) + ": expected a count");
  }
}

TEST_F(DamagedCheckpoint, SaysWhichNumbersContradictEachOther) {
  const Json state = read_json(checkpoint_ / "trainer_state.json");
  for (const char* field : {"step", "best_step", "evaluations_without_best"}) {
    Json changed = state;
    changed[field] = INT64_MAX;
    write_json(checkpoint_ / "trainer_state.json", changed);
    io::write_checksums(checkpoint_);
    expect_named(std::string("trainer_state.json: ") +
                 (field == std::string("step") ? "step: expected that of the folder, 2, found"
                                               : "expected a best_step"));
  }
}

TEST_F(DamagedCheckpoint, OfMoreStepsThanTheRunHasIsRefused) {
  Json state = read_json(checkpoint_ / "trainer_state.json");
  state["step"] = kTotal + 1;
  write_json(checkpoint_ / "trainer_state.json", state);
  io::write_checksums(checkpoint_);
  fs::rename(checkpoint_, checkpoint_.parent_path() / "checkpoint-13");
  expect_named("was saved after step 13, but this run has 12 steps");
}

TEST_F(DamagedCheckpoint, IsNoticedByOneByteInAnyFile) {
  for (const auto& [file, bytes] : files_of(checkpoint_)) {
    std::string changed = bytes;
    changed[changed.size() * 2 / 3] ^= 1;
    write_file(checkpoint_ / file, changed);
    expect_named(file == "checksums.json" ? "" : file);
    EXPECT_NE(resume_error(), "") << file;
    write_file(checkpoint_ / file, bytes);
  }
  EXPECT_EQ(resume_error(), "");
}

TEST_F(DamagedCheckpoint, MayBeOfAnOlderVersionWithoutChecksums) {
  Json state = read_json(checkpoint_ / "trainer_state.json");
  state.erase("checksums");
  state.erase("logs");
  write_json(checkpoint_ / "trainer_state.json", state);
  fs::remove(checkpoint_ / "checksums.json");
  fs::remove(checkpoint_ / "logs.json");
  EXPECT_EQ(resume_error(), "");
}

TEST_F(DamagedCheckpoint, NeedsTheLogLinesThatItWasSavedWith) {
  const fs::path log = checkpoint_.parent_path() / "metrics.jsonl";
  const std::string lines = read_file(log);
  const size_t second = lines.find('\n') + 1;
  const std::string missing = "metrics.jsonl: lines that the checkpoint was saved with are missing";
  write_file(log, lines.substr(0, second));  // cut off
  expect_named(missing);
  write_file(log, lines.substr(second));  // a hole
  expect_named(missing);
  write_file(log, std::string(lines.size(), '\0'));  // a length without content
  EXPECT_NE(resume_error(), "");
  write_file(log, lines + "{\"step\": 3}\n");  // more than there was
  EXPECT_EQ(resume_error(), "");
  EXPECT_TRUE(read_file(log).starts_with(lines));
  EXPECT_EQ(MetricsFile::read(log).size(), 4u);
}

TEST_F(DamagedCheckpoint, GoesOnWithANewLogIfTheOldOneWasMovedAway) {
  const fs::path log = checkpoint_.parent_path() / "metrics.jsonl";
  fs::rename(log, folder_ / "aside");
  EXPECT_EQ(resume_error(), "");
  EXPECT_EQ(MetricsFile::read(log).front()["step"], 3);
}

TEST_F(DamagedCheckpoint, OfGeneratorsThatAreNotOursIsRefused) {
  write_safetensors(checkpoint_ / "rng.safetensors", {{"cpu", torch::zeros({16}, torch::kByte)}});
  io::write_checksums(checkpoint_);
  expect_named("rng.safetensors");
}

TEST_F(DamagedCheckpoint, OfAnotherKindOfRunIsRefused) {
  const ResumeCase adapters = {"", "sft", [](Json& run) { run["lora"] = Json::object(); }};
  EXPECT_NE(resume_error(adapters).find("adapter_model"), std::string::npos)
      << resume_error(adapters);
  const ResumeCase averaged = {
      "", "sft", [](Json&) {}, [](TrainingCase& one) { one.options.ema_decay = 0.9; }};
  EXPECT_NE(resume_error(averaged).find("ema.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
