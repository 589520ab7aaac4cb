// Any allocation may fail while a run is loaded, trains and is saved: that is an error in one
// exception, nothing half-written is left, and the run goes on from its last checkpoint as if
// nothing had happened. REPRISE_OUT_OF_MEMORY=all lets each of the allocations fail, not only some.
#include "out_of_memory/failing_allocation.h"
#include "support/run_metrics.h"
#include "train/folder_files.h"
#include "train/loop/resume_case.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/live_tensors.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 2;

/// The numbers of allocations to let fail, of so many.
std::vector<uint64_t> some_of(uint64_t all, uint64_t tried) {
  const bool is_complete = std::getenv("REPRISE_OUT_OF_MEMORY") != nullptr;
  const uint64_t stride = is_complete ? 1 : std::max<uint64_t>(1, all / tried);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 1; number <= all; number += stride) {
    numbers.push_back(number);
  }
  return numbers;
}

uint64_t count_of(Allocations kind, const std::function<void()>& work) {
  const FailingAllocation none(kind, 0);
  work();
  return none.count();
}

/// Whether the work fails with an exception if that allocation does.
bool fails_without(uint64_t number, const std::function<void()>& work) {
  try {
    const FailingAllocation failing(Allocations::Tensors, number);
    work();
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

/// The same for small objects, in a child process: nlohmann's JSON allocates in its destructor, so
/// that some failures end the process. It must be that, and not a fault.
bool ends_without(uint64_t number, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    int code = 0;
    try {
      const FailingAllocation failing(Allocations::Objects, number);
      work();
    } catch (const std::exception&) {
      code = 1;
    }
    ::_exit(code);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGABRT) << "signal " << WTERMSIG(status);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

TEST(OutOfMemory, ARunGoesOnWhereItWas) {
  const TemporaryFolder whole;
  const auto train = [](const TemporaryFolder& folder) {
    TrainingCase run("sft", usual_run("sft", kSteps), folder);
    run.options.save_steps = 1;
    run.resume_from = latest_checkpoint(run.options.output);
    CollectingObserver observer;
    run.train(observer);
  };
  train(whole);
  const auto expected = files_of(whole / "output" / "checkpoint-2");
  const auto metrics = computed_metrics(whole / "output");
  uint64_t failures = 0;
  const auto all = count_of(Allocations::Tensors, [&] { train(TemporaryFolder()); });
  for (const uint64_t number : some_of(all, 40)) {
    SCOPED_TRACE(number);
    const TemporaryFolder folder;
    failures += fails_without(number, [&] { train(folder); }) ? 1 : 0;
    train(folder);  // with all the memory that it wants
    ASSERT_EQ(files_of(folder / "output" / "checkpoint-2"), expected);
    ASSERT_EQ(computed_metrics(folder / "output"), metrics);
  }
  EXPECT_GT(failures, 20u);
  RecordProperty("failures", static_cast<int>(failures));
}

TEST(OutOfMemory, ALiveTensorReportIsInTheMessage) {
  const auto train = [] {
    const TemporaryFolder folder;
    TrainingCase run("sft", usual_run("sft", kSteps), folder);
    CollectingObserver observer;
    const LiveTensorReport live;
    run.train(observer);
  };
  uint64_t reports = 0;
  for (const uint64_t number : some_of(count_of(Allocations::Tensors, train), 20)) {
    try {
      const FailingAllocation failing(Allocations::Tensors, number);
      train();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const bool is_of_a_step = text.find("out of memory in step") != std::string::npos;
      const bool has_table =
          text.find("Live tensors that operators have made") != std::string::npos;
      reports += is_of_a_step && has_table ? 1 : 0;
    }
  }
  EXPECT_GT(reports, 5u);
}

TEST(OutOfMemory, AModelThatCannotBeLoadedIsAnError) {
  const auto load = [] { load_model(training_fixtures() / "models" / "policy"); };
  uint64_t failures = 0;
  for (const uint64_t number : some_of(count_of(Allocations::Tensors, load), 200)) {
    failures += fails_without(number, load) ? 1 : 0;
  }
  for (const uint64_t number : some_of(count_of(Allocations::Objects, load), 200)) {
    SCOPED_TRACE(number);
    failures += ends_without(number, load) ? 1 : 0;
  }
  EXPECT_GT(failures, 100u);
}

TEST(OutOfMemory, AModelIsSavedWholeOrNotAtAll) {
  const auto model = load_model(training_fixtures() / "models" / "policy").model;
  const auto save = [&](const TemporaryFolder& folder) {
    AtomicFolder partial(folder / "model");
    save_model(*model, partial.path());
    partial.commit();
  };
  const TemporaryFolder whole;
  const auto all = count_of(Allocations::Objects, [&] { save(whole); });
  const auto expected = files_of(whole / "model");
  uint64_t failures = 0;
  for (const uint64_t number : some_of(all, 200)) {
    SCOPED_TRACE(number);
    const TemporaryFolder folder;
    failures += ends_without(number, [&] { save(folder); }) ? 1 : 0;
    if (fs::exists(folder / "model")) {
      ASSERT_EQ(files_of(folder / "model"), expected);
    }
  }
  EXPECT_GT(failures, 100u);
}

}  // namespace
}  // namespace reprise::testing
