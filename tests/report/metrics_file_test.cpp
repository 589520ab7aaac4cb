// metrics.jsonl: appended line by line, cut back on resume, read after any kind of death.
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/report/metrics_file.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

std::vector<int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const Json& record : MetricsFile::read(path)) {
    steps.push_back(record.at("step").get<int64_t>());
  }
  return steps;
}

void append_steps(MetricsFile& file, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    file.append({{"step", step}, {"loss", 1.0 / static_cast<double>(step)}});
  }
}

using Steps = std::vector<int64_t>;

TEST(MetricsFile, WritesOneLineForEachRecord) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "m");
  file.append({{"step", 1}, {"loss", 2.5}, {"memory", {{"other", 7}}}});
  file.append({{"step", 2}, {"name", "line\nbreak"}});
  EXPECT_EQ(read_file(folder / "m"),
            "{\"step\":1,\"loss\":2.5,\"memory\":{\"other\":7}}\n"
            "{\"step\":2,\"name\":\"line\\nbreak\"}\n");
}

TEST(MetricsFile, LosesNothingThatWasAppendedWhenTheProcessIsKilled) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    MetricsFile file(folder / "m");
    append_steps(file, 1, 3);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 3}));
}

TEST(MetricsFile, GoesOnBehindWhatIsThere) {
  const TemporaryFolder folder;
  {
    MetricsFile file(folder / "m");
    append_steps(file, 1, 2);
  }
  MetricsFile file(folder / "m");
  append_steps(file, 3, 3);
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 3}));
}

TEST(MetricsFile, DropsATornLastLine) {
  const std::string whole = "{\"step\":1}\n{\"step\":2}\n";
  for (const std::string torn : {"{", "{\"step\":3", "{\"step\":3,\"loss\":", "\xff"}) {
    const TemporaryFolder folder;
    write_file(folder / "m", whole + torn);
    EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2})) << torn;
    MetricsFile file(folder / "m");
    append_steps(file, 3, 3);
    EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 3})) << torn;
  }
}

TEST(MetricsFile, KeepsALastLineThatLacksOnlyItsNewline) {
  const TemporaryFolder folder;
  write_file(folder / "m", "{\"step\":1}\n{\"step\":2}");
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2}));
  MetricsFile file(folder / "m");
  append_steps(file, 3, 3);
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 3}));
}

TEST(MetricsFile, CutBackKeepsTheStepsUpToOneByteForByte) {
  const TemporaryFolder folder;
  // Spaces and digits as another program may have written them.
  const std::string kept =
      "{\"step\": 1, \"loss\": 0.10}\n{\"step\":2}\n{\"eval_loss\":1,\"step\":2}\n";
  write_file(folder / "m", kept + "{\"step\":3}\n{\"step\":4}\n{\"st");
  MetricsFile file(folder / "m");
  file.truncate_after(2);
  EXPECT_EQ(read_file(folder / "m"), kept);
  append_steps(file, 3, 4);
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 2, 3, 4}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"m"});
}

TEST(MetricsFile, CutBackToNothingLeavesAnEmptyFile) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "m");
  append_steps(file, 1, 5);
  file.truncate_after(0);
  EXPECT_EQ(read_file(folder / "m"), "");
  EXPECT_TRUE(MetricsFile::read(folder / "m").empty());
}

TEST(MetricsFile, LeavesTheOldLinesWhenCutBackFails) {
  const TemporaryFolder folder;
  const std::string text = "{\"step\":1}\nnot a record\n{\"step\":3}\n";
  write_file(folder / "m", text);
  MetricsFile file(folder / "m");
  expect_error([&] { file.truncate_after(1); }, ", line 2");
  EXPECT_EQ(read_file(folder / "m"), text);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"m"});
}

TEST(MetricsFile, WritesNumbersThatAreNotFiniteAsNull) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "m");
  file.append({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_TRUE(MetricsFile::read(folder / "m").at(0).at("loss").is_null());
}

TEST(MetricsFile, WritesTextThatIsNotUtf8) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "m");
  file.append({{"step", 1}, {"sample", "a\xff"}});
  EXPECT_EQ(MetricsFile::read(folder / "m").at(0).at("sample"), "a\xef\xbf\xbd");
}

TEST(MetricsFile, RefusesRecordsWithoutAnIntegerStep) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "m");
  for (const Json& record : {Json(3), Json::object(), Json{{"step", 1.5}}, Json{{"step", "1"}}}) {
    expect_error([&] { file.append(record); }, "expected an object with an integer \"step\"");
  }
  EXPECT_EQ(read_file(folder / "m"), "");
}

TEST(MetricsFile, NamesTheLineThatIsNoRecord) {
  const TemporaryFolder folder;
  write_file(folder / "m", "{\"step\":1}\n[2]\n{\"step\":3}\n");
  expect_error([&] { MetricsFile::read(folder / "m"); }, "m, line 2: expected an object");
  write_file(folder / "m", "{\"step\":1}\n{\"step\":18446744073709551615}\n");
  expect_error([&] { MetricsFile::read(folder / "m"); }, "m, line 2: expected an object");
  expect_error([&] { MetricsFile::read(folder / "none"); }, "none");
  expect_error([&] { MetricsFile(folder.path()); }, folder.path().string());
}

TEST(MetricsFile, LeavesNoPartOfALineThatDoesNotFit) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    // A limit on the size of files stands for a full disk: the first write is cut short.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    MetricsFile file(folder / "m");
    append_steps(file, 1, 2);
    const std::string message = error_of([&] {
      file.append({{"step", 3}, {"sample", std::string(500, 'x')}});
    });
    append_steps(file, 4, 4);
    ::_exit(message.find("cannot write") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(steps_in(folder / "m"), (Steps{1, 2, 4}));
}

}  // namespace
}  // namespace reprise::testing
