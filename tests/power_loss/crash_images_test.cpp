// The log and the images themselves: what must be found after a crash, and what may be.
#include "power_loss/crash_images.h"
#include "power_loss/file_log.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

std::vector<CrashImage> images_after(const std::function<void(const fs::path&, FileLog&)>& work) {
  const TemporaryFolder folder;
  FileLog log(folder.path());
  work(folder.path(), log);
  return crash_images(log.operations(), 1, 5);
}

bool any_has(const std::vector<CrashImage>& images,
             const std::string& file,
             const std::string& as) {
  return std::any_of(images.begin(), images.end(), [&](const CrashImage& image) {
    const auto found = image.files.find(file);
    return found != image.files.end() && found->second == as;
  });
}

TEST(CrashImages, ShowWhatIsNotSyncedAsLostTornZeroOrWhole) {
  const auto images = images_after([](const fs::path& folder, FileLog&) {
    const int file = ::open((folder / "x").c_str(), O_WRONLY | O_CREAT, 0600);
    EXPECT_EQ(::write(file, "abcd", 4), 4);
    ::close(file);
  });
  EXPECT_TRUE(any_has(images, "x", ""));
  EXPECT_TRUE(any_has(images, "x", "ab"));
  EXPECT_TRUE(any_has(images, "x", std::string(4, '\0')));
  EXPECT_TRUE(any_has(images, "x", "abcd"));
  EXPECT_TRUE(std::any_of(
      images.begin(), images.end(), [](const CrashImage& image) { return image.files.empty(); }));
}

// The mistake that everybody makes: the new name is on disk before the content.
TEST(CrashImages, ShowARenameWithoutSyncAsAnEmptyFile) {
  const auto images = images_after([](const fs::path& folder, FileLog&) {
    const int file = ::open((folder / "new").c_str(), O_WRONLY | O_CREAT, 0600);
    EXPECT_EQ(::write(file, "abcd", 4), 4);
    ::close(file);
    fs::rename(folder / "new", folder / "x");
  });
  EXPECT_TRUE(any_has(images, "x", ""));
}

TEST(CrashImages, ShowAnAtomicFileWholeOrNotAtAll) {
  const auto images = images_after([](const fs::path& folder, FileLog& log) {
    create_folder(folder / "a" / "b");
    write_file(folder / "a" / "b" / "x", "old");
    log.note("old");
    write_file(folder / "a" / "b" / "x", "new!");
    log.note("new");
  });
  EXPECT_TRUE(any_has(images, "a/b/x", "old"));
  EXPECT_TRUE(any_has(images, "a/b/x", "new!"));
  for (const auto& image : images) {
    const auto found = image.files.find("a/b/x");
    const std::string content = found == image.files.end() ? "" : found->second;
    EXPECT_TRUE(found == image.files.end() || content == "old" || content == "new!") << content;
    EXPECT_TRUE(!image.promises.contains("old") || !content.empty());
    EXPECT_TRUE(!image.promises.contains("new") || content == "new!");
  }
}

TEST(CrashImages, FollowFoldersThatAreRenamedAndRemoved) {
  const auto images = images_after([](const fs::path& folder, FileLog&) {
    create_folder(folder / "a");
    write_file(folder / "a" / "x", "content");
    fs::rename(folder / "a", folder / "b");
    fs::remove_all(folder / "b");
  });
  EXPECT_TRUE(any_has(images, "b/x", "content"));
  EXPECT_TRUE(images.begin()->files.empty());
}

}  // namespace
}  // namespace reprise::testing
