// Log-probabilities of the reference, computed once for the whole data set.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

class Precompute : public ::testing::TestWithParam<std::string> {
 protected:
  TrainingCase make(const Json& run) const { return {GetParam(), run, folder_}; }

  PrecomputeOptions options_for(const TrainingCase& one, const std::string& key = "k") {
    return {.collate = one.options.collate,
            .batch_size = one.options.batch_size,
            .cache = folder_ / "reference" / "logps.safetensors",
            .key = key,
            .progress = [this](int64_t done, int64_t total) {
              ++passes_;
              EXPECT_LE(done, total);
            }};
  }

  at::Tensor compute(const TrainingCase& one, const std::string& key = "k") {
    passes_ = 0;
    return precompute_reference(one.referenced(), *one.data, options_for(one, key));
  }

  TemporaryFolder folder_;
  int64_t passes_ = 0;
};

/// In file order the batches are the same, so the last bit is too.
TEST_P(Precompute, TrainsAsWithTheReferenceAtHand) {
  Json run = usual_run(GetParam(), 8);
  run["arguments"]["train_sampling_strategy"] = "sequential";
  CollectingObserver expected, found;
  auto with_reference = make(run);
  with_reference.options.save_steps = 0;
  with_reference.train(expected);
  run["arguments"]["precompute_ref_log_probs"] = true;
  auto one = make(run);
  one.options.save_steps = 0;
  EXPECT_EQ(one.objective->frozen_bytes(), 0);  // the reference is let go
  one.train(found);
  EXPECT_EQ(found.all("loss"), expected.all("loss"));
  EXPECT_EQ(found.all("grad_norm"), expected.all("grad_norm"));
}

TEST_P(Precompute, IsReadFromItsFileTheNextTime) {
  const auto one = make(usual_run(GetParam(), 1));
  const auto first = compute(one);
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{one.data->size(), 2}));
  EXPECT_EQ(passes_, 7);
  EXPECT_TRUE(bitwise_equal(compute(one), first));
  EXPECT_EQ(passes_, 0);
}

TEST_P(Precompute, IsMadeAgainIfTheFileIsDamagedOrOfAnotherKey) {
  const auto one = make(usual_run(GetParam(), 1));
  const auto first = compute(one);
  const auto file = folder_ / "reference" / "logps.safetensors";
  const std::string bytes = read_file(file);
  for (const size_t size : {size_t{0}, size_t{20}, bytes.size() - 1}) {
    write_file(file, std::string_view(bytes).substr(0, size));
    EXPECT_TRUE(bitwise_equal(compute(one), first));
    EXPECT_EQ(passes_, 7) << size;
    EXPECT_EQ(read_file(file), bytes);
  }
  compute(one, "another");
  EXPECT_EQ(passes_, 7);
}

/// As a program does it: the key is of the file's content, the cache's name of the key. The same
/// rows in another order, so that only the content tells the files apart.
TEST_P(Precompute, IsMadeAnewForAnEvaluationFileThatChanged) {
  Json run = usual_run(GetParam(), 1);
  const std::string lines =
      read_file(training_fixtures() / "data" / (run["data"].get<std::string>() + ".jsonl"));
  run["eval_data"] = (folder_ / "eval").string();
  const auto file = folder_ / "eval.jsonl";
  const auto compute_for = [&](const std::string& content) {
    write_file(file, content);
    const auto one = make(run);
    const auto key = content_hash({file}, {});
    auto options = options_for(one, key);
    options.cache = folder_ / ("reference-" + key + ".safetensors");
    passes_ = 0;
    return precompute_reference(one.referenced(), *one.eval_data, options);
  };
  const auto before = compute_for(lines);
  const size_t second = lines.find('\n') + 1;
  const auto after = compute_for(lines.substr(second) + lines.substr(0, second));
  EXPECT_EQ(passes_, 7);
  ASSERT_EQ(after.sizes(), before.sizes());
  EXPECT_FALSE(after.equal(before));
  EXPECT_TRUE(bitwise_equal(compute_for(lines), before));
  EXPECT_EQ(passes_, 0);
}

/// Its reference is too large for every machine.
class OutOfMemoryReference final : public ReferencedObjective {
 public:
  explicit OutOfMemoryReference(Model& model) : ReferencedObjective({}), model_(model) {}

  Model& model() const override { return model_; }
  BatchLoss loss(const Batch&, const StepContext&) override { return {}; }
  at::Tensor reference_logps(const Batch&) const override { throw std::bad_alloc(); }

 private:
  Model& model_;
};

TEST_P(Precompute, NamesTheBatchSizeThatWouldHelpIfMemoryRunsOut) {
  const auto one = make(usual_run(GetParam(), 1));
  auto options = options_for(one);
  const auto precompute = [&] {
    precompute_reference(OutOfMemoryReference(*one.model), *one.data, options);
  };
  const std::string error = error_of(precompute);
  EXPECT_NE(error.find("out of memory in the reference's pass over the data, with a batch of 4 x "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("\n  parameters: "), std::string::npos) << error;
  EXPECT_NE(error.find("\n  `precompute_ref_batch_size` 2: "), std::string::npos) << error;
  options.batch_option = "per_device_train_batch_size";
  expect_error(precompute, "\n  `per_device_train_batch_size` 2: ");
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         Precompute,
                         ::testing::Values("dpo", "kto"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace reprise::testing
