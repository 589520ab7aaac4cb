// A reward command, well behaved and in every way badly: each failure has a message that says what
// the process did.
#include <reprise/reward/command.h>

#include "reward/reward_requests.h"
#include "support/temporary_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace reprise {
namespace {

using namespace std::chrono_literals;
using testing::expect_error;
using testing::RewardRequests;
using testing::TemporaryFolder;

std::unique_ptr<RewardSource> command(const std::string& text) {
  return make_command_reward({.command = text, .timeout = 30s});
}

std::unique_ptr<RewardSource> impatient(const std::string& text) {
  return make_command_reward({.command = text, .timeout = 300ms});
}

RewardRequests three() {
  RewardRequests batch;
  batch.add("a", "x").add("b", "y").add("c", "z");
  return batch;
}

void expect_source_failure(RewardSource& source, const std::string& part) {
  const RewardRequests batch = three();
  expect_error([&] { source.score(batch.requests); }, part);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Prints 1 for every object, until its input ends.
constexpr const char* kOnes = "while read -r line; do echo 1; done";

TEST(CommandReward, GetsTheRowAndKeepsOneProcessForAllBatches) {
  const TemporaryFolder folder;
  const auto log = folder / "log";
  const auto source = command("n=0; while read -r line; do printf '%s\\n' \"$line\" >> '" +
                              log.string() + "'; n=$((n+1)); echo $n.5; done");
  RewardRequests batch;
  batch.add("1+1=", "2", {{"answer", "2"}, {"prompt", "raw"}, {"row", 7}});
  batch.add("q", "\xff\n", {{"level", 3}});
  batch.requests[1].is_finished = false;
  EXPECT_EQ(source->score(batch.requests), std::vector<double>({1.5, 2.5}));
  EXPECT_EQ(source->score(std::span(batch.requests).first(1)), std::vector<double>({3.5}));
  EXPECT_TRUE(source->score({}).empty());
  const std::string row = R"("is_finished":true,"answer":"2","row":{"prompt":"raw"}})";
  EXPECT_EQ(text_of(log),
            R"({"id":0,"prompt":"1+1=","completion":"2",)" + row + "\n" +
                R"({"id":1,"prompt":"q","completion":")" + "\ufffd" +
                R"(\n","is_finished":false,"level":3})" + "\n" +
                R"({"id":2,"prompt":"1+1=","completion":"2",)" + row + "\n");
}

TEST(CommandReward, TakesNumbersNullAndObjectsInAnyOrder) {
  const RewardRequests batch = three();
  const auto plain = command(
      "while read -r a && read -r b && read -r c; do "
      "printf -- '-1e-3\\r\\nnull\\n {\"reward\": 2} \\n'; done");
  const auto rewards = plain->score(batch.requests);
  EXPECT_EQ(rewards[0], -1e-3);
  EXPECT_TRUE(std::isnan(rewards[1]));
  EXPECT_EQ(rewards[2], 2);
  const auto by_id = command(
      "read -r a; read -r b; read -r c; echo '{\"id\":2,\"reward\":30}'; "
      "echo '{\"reward\":10,\"id\":0,\"why\":\"a: nan \"}'; "
      "echo '{\"id\":1,\"reward\":null}'; cat > /dev/null");
  const auto sorted = by_id->score(batch.requests);
  EXPECT_EQ(sorted[0], 10);
  EXPECT_TRUE(std::isnan(sorted[1]));
  EXPECT_EQ(sorted[2], 30);
}

TEST(CommandReward, DoesNotDeadlockWhenTheProcessPrintsBeforeItReads) {
  // Both pipes are full: 300 objects of 10 kB, and lines of 1 kB before the first is read.
  RewardRequests batch;
  for (int i = 0; i < 300; ++i) {
    batch.add("p", std::string(10'000, 'x'));
  }
  const auto source = command(
      "awk 'BEGIN { for (i = 0; i < 300; i++) "
      "printf \"{\\\"reward\\\": 1, \\\"note\\\": \\\"%01000d\\\"}\\n\", i; "
      "fflush(); while ((getline line) > 0) n++ }'");
  EXPECT_EQ(source->score(batch.requests), std::vector<double>(300, 1));
}

TEST(CommandReward, TakesAMegabyteOfStandardErrorAndShowsTheEndOfIt) {
  const std::string chatter =
      "awk 'BEGIN { for (i = 0; i < 20000; i++) "
      "print \"a long line of complaints, number \" i > \"/dev/stderr\" }'; ";
  const auto talks = command(chatter + kOnes);
  EXPECT_EQ(talks->score(three().requests), std::vector<double>({1, 1, 1}));
  const auto dies = command(chatter + "exit 3");
  const std::string message = testing::error_of([&] { dies->score(three().requests); });
  EXPECT_NE(message.find("complaints, number 19999)"), std::string::npos) << message;
  EXPECT_EQ(message.find("number 18000\n"), std::string::npos);
  EXPECT_LT(message.size(), 10'000U);
}

TEST(CommandReward, ThatDiesAtStartIsNamedWithStatusAndWords) {
  const auto source = command("echo no model file >&2; exit 3");
  expect_source_failure(
      *source,
      "[reward] command: the command \"echo no model file >&2; exit 3\" failed, was "
      "started again and failed again. First time: it closed its output after 0 of 3 "
      "lines (exit status 3, standard error ends with: no model file). Second time: it");
  const auto missing = command("/no/such/program");
  expect_source_failure(*missing, "exit status 127, standard error ends with: ");
}

TEST(CommandReward, ThatDiesInABatchIsNamedWithItsSignal) {
  const auto source = command("read -r line; echo 0.25; kill -9 $$");
  expect_source_failure(*source, "after 1 of 3 lines, the last being \"0.25\" (signal 9 (Killed)");
}

TEST(CommandReward, ThatDiesOnceIsStartedAgainAndAskedAgain) {
  const TemporaryFolder folder;
  const auto mark = (folder / "mark").string();
  const auto source = command("if test -e '" + mark + "'; then " + kOnes + "; else touch '" + mark +
                              "'; read -r line; echo 7; exit 1; fi");
  EXPECT_EQ(source->score(three().requests), std::vector<double>({1, 1, 1}));
}

TEST(CommandReward, ThatEndsBetweenBatchesIsStartedAgain) {
  const auto source = command("for i in 1 2 3; do read -r line; echo $i; done");
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(source->score(three().requests), std::vector<double>({1, 2, 3}));
  }
}

TEST(CommandReward, ThatHangsRunsIntoItsTimeOut) {
  const auto source = impatient("cat > /dev/null");
  expect_source_failure(*source,
                        "it printed 0 of 3 lines in 300 ms, the time-out (`reward_timeout`");
  const auto stubborn = impatient("trap '' TERM; while :; do sleep 1; done");
  expect_source_failure(*stubborn,
                        "it printed 0 of 3 lines in 300 ms, the time-out (`reward_timeout`");
}

TEST(CommandReward, ThatPrintsTooFewLinesRunsIntoItsTimeOut) {
  const auto source = impatient("echo 1; printf 2; cat > /dev/null");
  expect_source_failure(*source,
                        "it printed 1 of 3 lines in 300 ms, the time-out (`reward_timeout`");
}

TEST(CommandReward, ThatPrintsTooManyLinesIsRefused) {
  const auto source = command("printf '1\\n2\\n3\\n4\\n'; cat > /dev/null");
  expect_source_failure(*source,
                        "it printed more than the 3 lines it was asked for; the last is \"4\"");
}

TEST(CommandReward, DoesNotTakeALineBetweenBatchesForAnAnswer) {
  const TemporaryFolder folder;
  // Once, and only when the first batch is over, a line that nobody asked for.
  const auto source = command("cd '" + folder.path().string() +
                              "'; while read -r a && read -r b && read -r c; do "
                              "printf '1\\n2\\n3\\n'; until test -e over; do sleep 0.01; done; "
                              "test -e printed || echo 4; touch printed; done");
  EXPECT_EQ(source->score(three().requests), std::vector<double>({1, 2, 3}));
  std::ofstream(folder / "over") << "\n";
  while (!std::filesystem::exists(folder / "printed")) {
    ::usleep(1000);
  }
  EXPECT_EQ(source->score(three().requests), std::vector<double>({1, 2, 3}));
}

TEST(CommandReward, ThatPrintsRubbishIsShownWithIt) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"good", "on a line, it printed \"good\" ("},
      {"", "on a line, it printed \"\" ("},
      {"[1]", "the reward is an array"},
      {"true", "the reward is true"},
      {"{\"id\": 0}", "it has no \"reward\""},
      {"{\"id\": \"0\", \"reward\": 1}", "its \"id\" is a string"},
      {"{\"id\": 9, \"reward\": 1}",
       "it answered the id 9, which is not asked for: expected 0 to 2"},
      {"{\"id\": 0, \"reward\": 1}", "it answered the id 0 twice"},
      {"1 2", "it printed \"1 2\""},
      {"1e999", "it printed \"1e999\""}};
  for (const auto& [line, message] : cases) {
    const auto source = command("while read -r line; do echo '" + line + "'; done");
    expect_source_failure(*source, message);
  }
  const auto both = command("echo 1; echo '{\"id\": 1, \"reward\": 1}'; echo 1; cat > /dev/null");
  expect_source_failure(*both, "either all or none of its lines must have an id");
  const auto endless = command("head -c 200000 /dev/zero | tr '\\0' x; cat > /dev/null");
  expect_source_failure(*endless,
                        "it printed a line of more than 65536 bytes that begins with \"xxx");
}

TEST(CommandReward, ThatAnswersNanOrInfinityIsRefusedWithTheRow) {
  RewardRequests batch;
  batch.add("p", "good").add("p", "bad", {{"answer", "42"}});
  for (const char* second : {"nan", "NaN", "-inf", "Infinity", "{\"reward\": NaN, \"id\": 1}"}) {
    const std::string first = second[0] == '{' ? "{\"id\": 0, \"reward\": 1}" : "1";
    const auto source = command("echo '" + first + "'; echo '" + second + "'; cat > /dev/null");
    expect_error([&] { source->score(batch.requests); },
                 "answered NaN or infinity for 1 of 2 completions; print null for one that cannot "
                 "be scored. The first is number 1 of its batch, \"bad\", of the row "
                 "\"{\"answer\":\"42\"}\"");
  }
}

TEST(CommandReward, EndsItsProcessAndWhatThatStarted) {
  const TemporaryFolder folder;
  const auto file = folder / "pid";
  pid_t started = 0;
  {
    const auto source = command("trap '' TERM; sleep 1000 & echo $! > '" + file.string() +
                                "'; while read -r line; do echo 1; done; wait");
    source->score(three().requests);
    started = static_cast<pid_t>(std::stoi(text_of(file)));
    EXPECT_EQ(::kill(started, 0), 0);
  }
  // Orphans are reaped by init, which may take a moment; a zombie has no command line.
  std::string left;
  for (int i = 0; i < 500; ++i) {
    left = text_of("/proc/" + std::to_string(started) + "/cmdline");
    if (left.empty()) {
      break;
    }
    ::usleep(10'000);
  }
  EXPECT_EQ(left, "");
}

TEST(CommandReward, GivesItsProcessNoneOfItsOwnPipes) {
  // What this process inherited and hands on does not count; the shell's own copies are 10 and up.
  int inheritable = 0;
  for (int i = 3; i < 10; ++i) {
    const int flags = ::fcntl(i, F_GETFD);
    inheritable += flags >= 0 && (flags & FD_CLOEXEC) == 0 ? 1 : 0;
  }
  const auto first = command(kOnes);
  first->score(three().requests);
  const auto source = command(
      "n=0; for i in 3 4 5 6 7 8 9; do if test -e /proc/$$/fd/$i; then n=$((n+1)); fi; done; "
      "while read -r line; do echo $n; done");
  EXPECT_EQ(source->score(three().requests), std::vector<double>(3, inheritable));
}

TEST(CommandReward, LeavesTheHandlingOfSigpipeAlone) {
  struct sigaction before {};
  struct sigaction after {};
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &before), 0);
  // More than a pipe holds, so that the rest is written when nobody can read it any more.
  RewardRequests batch;
  for (int i = 0; i < 300; ++i) {
    batch.add("p", std::string(10'000, 'x'));
  }
  const auto source = command("exec 0<&-; sleep 0.1; exit 1");
  expect_error([&] { source->score(batch.requests); }, "exit status 1");
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &after), 0);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(CommandReward, NeedsACommandAndATimeOut) {
  expect_error([] { command(""); }, "expected a command");
  expect_error([] { make_command_reward({.command = "cat", .timeout = 0ms}); },
               "a time-out above 0");
}

}  // namespace
}  // namespace reprise
