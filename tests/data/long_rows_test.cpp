// A row of any length is read and tokenised with memory of a few times its bytes, though all but
// its first tokens are cut off.
#include <reprise/data/dataset.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include "data/row_checks.h"
#include "support/sanitizer.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace reprise::testing {
namespace {

constexpr int64_t kRowBytes = int64_t{8} << 20;

/// The largest size of a process that does this, and its exit code.
struct Peak {
  int64_t bytes = 0;
  int exit_code = -1;
};

Peak peak_of(const std::function<bool()>& does) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(does() ? 0 : 1);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  return {int64_t{used.ru_maxrss} << 10, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::string long_words() {
  std::string text;
  for (int64_t i = 0; static_cast<int64_t>(text.size()) < kRowBytes; ++i) {
    text += "word" + std::to_string(i % 977) + " ";
  }
  return text;
}

TEST(LongRows, TakeAFewTimesTheirBytes) {
  if (REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN) {
    GTEST_SKIP() << "a sanitizer takes memory of its own";
  }
  const TemporaryFolder folder;
  const Json row{{"text", long_words()}};
  write_file(folder / "data.jsonl", row.dump() + "\n{\"text\": \"a short one\"}\n");
  RowOptions options;
  options.max_length = 64;
  const RowTokenizer rows = tokenizer_for(options);
  const auto open = [&] {
    DatasetOptions files;
    files.files = {{folder / "data.jsonl"}};
    files.cache = folder / "cache";
    files.tokenizer_key = "fixture";
    return open_dataset(rows, files).dataset->size() == 2;
  };
  const Peak idle = peak_of([] { return true; });
  const Peak peak = peak_of(open);
  ASSERT_EQ(peak.exit_code, 0);
  EXPECT_LT(peak.bytes - idle.bytes, 16 * kRowBytes);  // with offsets of all tokens it was 90 times
}

}  // namespace
}  // namespace reprise::testing
