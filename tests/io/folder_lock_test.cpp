// One writer per folder, and folders whose writers were killed.
#include "support/temporary_folder.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/io/folder_lock.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

/// Runs `work` in a child, which then waits to be killed.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<void()>& work) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    process_ = ::fork();
    if (process_ == 0) {
      work();
      [[maybe_unused]] const auto count = ::write(ready[1], "x", 1);
      ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~WaitingChild() { kill(); }
  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_ = 0;
};

size_t entries_of(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(FolderLock, NamesItsHolder) {
  const TemporaryFolder folder;
  WaitingChild holder([&] { new FolderLock(folder.path()); });  // allow: owning-new
  expect_error([&] { FolderLock(folder.path()); },
               "process " + std::to_string(holder.process()) + " on ");
  holder.kill();
  EXPECT_EQ(FolderLock(folder.path()).missing(), "");
}

TEST(FolderLock, HoldsWithinAProcess) {
  const TemporaryFolder folder;
  const FolderLock lock(folder.path());
  expect_error([&] { FolderLock(folder.path()); }, "is writing to this folder");
}

TEST(FolderLock, LeavesNothing) {
  const TemporaryFolder folder;
  { const FolderLock lock(folder.path()); }
  EXPECT_EQ(entries_of(folder.path()), 0u);
  { const FolderLock lock(folder.path()); }
  EXPECT_EQ(entries_of(folder.path()), 0u);
}

TEST(FolderLock, DoesNotFollowALink) {
  const TemporaryFolder folder;
  write_file(folder / "mine", "precious");
  fs::create_symlink(folder / "mine", folder / ".reprise.lock");
  expect_error([&] { FolderLock(folder.path()); }, "cannot create");
  EXPECT_EQ(read_file(folder / "mine"), "precious");
}

TEST(FolderLock, ShowsWhatAHostileHolderWroteWithoutControlCharacters) {
  const TemporaryFolder folder;
  WaitingChild holder([&] {
    new FolderLock(folder.path());  // allow: owning-new
    std::ofstream(folder / ".reprise.lock") << "evil\x1b[2J";
  });
  expect_error([&] { FolderLock(folder.path()); }, "evil?[2J is writing");
}

TEST(AtomicFolder, RemovesAttemptsOfKilledProcesses) {
  const TemporaryFolder folder;
  WaitingChild killed([&] { new AtomicFolder(folder / "x"); });  // allow: owning-new
  EXPECT_EQ(entries_of(folder.path()), 1u);
  {
    const AtomicFolder beside(folder / "x");  // the other one still lives
    EXPECT_EQ(entries_of(folder.path()), 2u);
  }
  killed.kill();
  const AtomicFolder after(folder / "x");
  EXPECT_EQ(entries_of(folder.path()), 1u);
}

TEST(AtomicFolder, HasANameOfItsOwnInEveryProcess) {
  const TemporaryFolder folder;
  const AtomicFolder first(folder / "x");
  const AtomicFolder second(folder / "x");  // as with process 1 of two containers
  EXPECT_NE(first.path(), second.path());
}

TEST(AtomicFolder, OnlyOneOfTwoIsCommitted) {
  const TemporaryFolder folder;
  AtomicFolder first(folder / "x");
  AtomicFolder second(folder / "x");
  write_file(first.path() / "file", "first");
  write_file(second.path() / "file", "second");
  first.commit();
  expect_error([&] { second.commit(); }, "cannot rename");
  EXPECT_EQ(read_file(folder / "x" / "file"), "first");
}

}  // namespace
}  // namespace reprise::testing
