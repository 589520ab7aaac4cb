// What the program shows on a terminal has no control characters of others' making; in a pipe it is
// unchanged.
#include "app/commands.h"
#include "reprise/terminal_text.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>

namespace reprise {
namespace {

using app::terminal_text;

constexpr const char* kInstead = "\xef\xbf\xbd";

TEST(TerminalText, HasNoControlCharactersButNewlineAndTab) {
  const std::string r = kInstead;
  EXPECT_EQ(terminal_text("a\tb\nc \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80"),
            "a\tb\nc \xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80");
  EXPECT_EQ(terminal_text("\x1b[31mred\x1b]0;title\x07"), r + "[31mred" + r + "]0;title" + r);
  EXPECT_EQ(terminal_text("a\rb\bc\x7f"), "a" + r + "b" + r + "c" + r);
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "31m"),
            r + "31m");  // C1's CSI
  EXPECT_EQ(terminal_text("\x9b"
                          "31m \xff \xe6\x97"),
            r + "31m " + r + " " + r);
  EXPECT_EQ(terminal_text(std::string("a\0b", 3)), "a" + r + "b");
}

TEST(TerminalText, IsTheSameInParts) {
  const std::string text = "a\xc2\x9b\x1b[2J \xe6\x97\xa5\xf0\x9f\x98\x80 \xc3";
  app::TerminalFilter filter;
  std::string shown;
  for (const char byte : text) {
    shown += filter.pass({&byte, 1});
  }
  EXPECT_EQ(shown + filter.finish(), terminal_text(text));
}

/// All that a program shows on a terminal of its own.
std::string shown_on_terminal(const std::string& command) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_TRUE(master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0);
  const std::string name = ::ptsname(master);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const int terminal = ::open(name.c_str(), O_RDWR);
    ::dup2(terminal, STDOUT_FILENO);
    ::dup2(terminal, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string all;
  char byte = 0;
  while (::read(master, &byte, 1) == 1) {
    all += byte;
  }
  ::waitpid(child, nullptr, 0);
  ::close(master);
  return all;
}

class Terminal : public testing::Commands {};

TEST_F(Terminal, ShowsErrorsAndTextsWithoutControlCharacters) {
  const std::string program = testing::shell_quoted(testing::program().string());
  const std::string error =
      shown_on_terminal(program + " inspect \"$(printf 'no\\033]0;owned\\007')\"");
  EXPECT_NE(error.find("no\xef\xbf\xbd]0;owned"), std::string::npos) << error;
  EXPECT_EQ(error.find('\x1b'), std::string::npos) << error;

  const std::string tokenize = "printf '{\"text\": \"a\\\\u009b31m\"}\\n' | " + program +
                               " tokenize --model " + path("model");
  const std::string shown = shown_on_terminal(tokenize);
  EXPECT_NE(shown.find("31m"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("\xc2\x9b"), std::string::npos) << shown;
  const auto piped =
      testing::run_program({"tokenize", "--model", path("model")}, "{\"text\": \"a\\u009b31m\"}\n");
  EXPECT_NE(piped.out.find("\xc2\x9b"), std::string::npos) << piped.out;
}

}  // namespace
}  // namespace reprise
