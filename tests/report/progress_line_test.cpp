// The live line on a terminal of our own, read as a screen shows it, and in a file.
#include "reprise/progress_line.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using app::ProgressLine;

/// A pseudo-terminal: what is written to terminal() comes out of written().
class Terminal {
 public:
  explicit Terminal(uint16_t columns) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = 24;
    TORCH_CHECK(::openpty(&reader_, &terminal_, nullptr, nullptr, &size) == 0, "no pty");
    ::fcntl(reader_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::close(terminal_);
    ::close(reader_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int terminal() const { return terminal_; }

  std::string written() const {
    std::string all;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::read(reader_, bytes.data(), bytes.size())) > 0;) {
      all.append(bytes.data(), static_cast<size_t>(count));
    }
    return all;
  }

 private:
  int terminal_ = -1, reader_ = -1;
};

/// The lines on a screen after the control sequences that we use.
std::vector<std::string> screen_of(const std::string& written) {
  const std::string clear = "\x1b[K";
  std::vector<std::string> lines = {""};
  size_t column = 0;
  for (size_t i = 0; i < written.size(); ++i) {
    if (written.compare(i, clear.size(), clear) == 0) {
      lines.back().resize(column);
      i += clear.size() - 1;
    } else if (written[i] == '\r') {
      column = 0;
    } else if (written[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1));
      lines.back()[column++] = written[i];
    }
  }
  return lines;
}

class ProgressLineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("LC_ALL", "C", 1);
    ::setenv("TERM", "xterm", 1);
  }
};

Progress at(int64_t step, double loss) {
  Progress progress{.step = step, .total = 100};
  progress.loss = loss;
  progress.seconds_left = 60;
  return progress;
}

TEST_F(ProgressLineTest, RedrawsOneLine) {
  const Terminal terminal(80);
  {
    ProgressLine line(terminal.terminal());
    line.show(at(1, 12345.5));
    line.show(at(100, 1.5));
  }
  EXPECT_EQ(screen_of(terminal.written()),
            (std::vector<std::string>{"[######]  100/100  loss   1.500   1m00s left", ""}));
}

TEST_F(ProgressLineTest, LeavesALineOfEachLoggedStepOnTheScreen) {
  const Terminal terminal(80);
  {
    ProgressLine line(terminal.terminal());
    line.log(at(1, 12345.5));
    line.log(at(10, 1.5));
  }
  EXPECT_EQ(screen_of(terminal.written()),
            (std::vector<std::string>{"step   1/100  loss   12346   1m00s left",
                                      "step  10/100  loss   1.500   1m00s left",
                                      ""}));
}

TEST_F(ProgressLineTest, ShowsWhatComesBeforeTheFirstStep) {
  const Terminal terminal(40);
  {
    ProgressLine line(terminal.terminal());
    line.phase("loading a model");
    line.print("a model: 7B");
    line.phase("tokenising " + std::string(50, 'd'));
    EXPECT_EQ(screen_of(terminal.written()),
              (std::vector<std::string>{"a model: 7B", "tokenising " + std::string(28, 'd')}));
  }
  EXPECT_EQ(terminal.written(), "\r\x1b[K") << "an error comes on a clean line";
  const TemporaryFolder folder;
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  ProgressLine(file).phase("loading a model");
  ::close(file);
  EXPECT_EQ(read_file(folder / "log"), "loading a model\n");
}

TEST_F(ProgressLineTest, StaysInsideANarrowTerminal) {
  const Terminal terminal(24);
  ProgressLine line(terminal.terminal());
  line.log(at(50, 1.5));
  EXPECT_LT(screen_of(terminal.written()).front().size(), 24u);
}

TEST_F(ProgressLineTest, PrintsOtherLinesAboveIt) {
  const Terminal terminal(80);
  {
    ProgressLine line(terminal.terminal());
    line.show(at(1, 1.5));
    line.print("saved checkpoint-1");
  }
  EXPECT_EQ(screen_of(terminal.written()),
            (std::vector<std::string>{
                "saved checkpoint-1", "[......]    1/100  loss   1.500   1m00s left", ""}));
}

TEST_F(ProgressLineTest, ShowsTheLastStepHoweverFastItCame) {
  const Terminal terminal(80);
  {
    ProgressLine line(terminal.terminal());
    for (int64_t step = 1; step <= 100; ++step) {
      line.show(at(step, 1.5));
    }
  }
  EXPECT_NE(screen_of(terminal.written()).front().find("100/100"), std::string::npos);
}

TEST_F(ProgressLineTest, WritesALineForEachLoggedStepToAFile) {
  const TemporaryFolder folder;
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT, 0600);
  {
    ProgressLine line(file);
    line.show(at(1, 3));
    line.log(at(2, 2));
    line.print("saved checkpoint-2");
    line.log(at(4, 1));
  }
  ::close(file);
  EXPECT_EQ(read_file(folder / "log"),
            "step 2/100  loss 2.000  1m00s left\n"
            "saved checkpoint-2\n"
            "step 4/100  loss 1.000  1m00s left\n");
}

TEST_F(ProgressLineTest, PrintsPlainLinesOnADumbTerminal) {
  ::setenv("TERM", "dumb", 1);
  const Terminal terminal(80);
  ProgressLine line(terminal.terminal());
  line.log(at(2, 2));
  EXPECT_EQ(terminal.written(), "step 2/100  loss 2.000  1m00s left\r\n");
}

TEST_F(ProgressLineTest, DrawsTheBarInUnicodeWhereTheLocaleHasIt) {
  ::setenv("LC_ALL", "en_US.UTF-8", 1);
  const Terminal terminal(80);
  ProgressLine line(terminal.terminal());
  line.log(at(50, 2));
  EXPECT_NE(terminal.written().find("█"), std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
