// Files: mapped and read as they are, written whole or not at all.
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>

namespace reprise::testing {
namespace {

TEST(ReadFile, GivesAllBytes) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n", 4);
  std::ofstream(folder / "x", std::ios::binary) << bytes;
  EXPECT_EQ(read_file(folder / "x"), bytes);
}

TEST(ReadFile, RefusesWhatItShouldNotRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / "x") << "abcd";
  expect_error([&] { read_file(folder / "none"); }, "cannot open");
  expect_error([&] { read_file(folder.path()); }, "expected a regular file, found a folder");
  expect_error([&] { read_file(folder / "x", 3); }, "expected at most 3 bytes, found 4");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { read_file(folder / "pipe"); }, "expected a regular file");
}

TEST(MappedFile, ShowsTheBytesAndSurvivesAMove) {
  const TemporaryFolder folder;
  write_file(folder / "x", "abc");
  MappedFile first(folder / "x");
  const std::byte* const address = first.bytes().data();
  const MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(second.bytes().size(), 3u);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
}

TEST(MappedFile, MayBeEmpty) {
  const TemporaryFolder folder;
  write_file(folder / "x", "");
  EXPECT_TRUE(MappedFile(folder / "x").bytes().empty());
}

TEST(MappedFile, CanBeReadAgainAfterRelease) {
  const TemporaryFolder folder;
  write_file(folder / "x", std::string(100'000, 'q'));
  const MappedFile file(folder / "x");
  file.release(0, 100'000);
  file.release(5'000, SIZE_MAX);
  EXPECT_EQ(file.bytes()[99'999], std::byte{'q'});
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "x");
  file.write("half");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  file.write(" and half");
  EXPECT_EQ(file.written(), 13u);
  file.commit();
  EXPECT_EQ(read_file(folder / "x"), "half and half");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(AtomicFile, LeavesTheOldFileWhenDropped) {
  const TemporaryFolder folder;
  write_file(folder / "x", "old");
  {
    AtomicFile file(folder / "x");
    file.write("new");
  }
  EXPECT_EQ(read_file(folder / "x"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(AtomicFile, LeavesNothingWhenItsNameIsAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "x");
  expect_error([&] { write_file(folder / "x", "text"); }, "cannot replace");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(AtomicFile, RefusesAMissingFolder) {
  const TemporaryFolder folder;
  expect_error([&] { write_file(folder / "none/x", "text"); }, "cannot create");
}

TEST(AtomicFile, RefusesUseAfterCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "x");
  file.commit();
  expect_error([&] { file.write("more"); }, "written to after commit");
  expect_error([&] { file.commit(); }, "committed twice");
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMix) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "x");
  AtomicFile second(folder / "x");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "x"), "first");
}

TEST(AtomicFile, StepsOverWhatAKilledProcessLeft) {
  const TemporaryFolder folder;
  for (int serial = 0; serial < 200; ++serial) {  // this process may be anywhere among them
    std::ofstream(folder / (".x." + std::to_string(::getpid()) + "." + std::to_string(serial)));
  }
  write_file(folder / "x", "text");
  EXPECT_EQ(read_file(folder / "x"), "text");
}

TEST(AtomicFile, HonoursTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file(folder / "x", "text");
  ::umask(before);
  EXPECT_EQ(std::filesystem::status(folder / "x").permissions(), std::filesystem::perms(0640));
}

}  // namespace
}  // namespace reprise::testing
