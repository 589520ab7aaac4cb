// Files that become shorter while they are in use: a message that names the file, as an error where
// it is read, and as the end of the process where it is mapped.
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

namespace reprise::testing {
namespace {

constexpr size_t kBytes = 1 << 20;

/// Makes the file shorter, then reads the last of its mapped bytes, which faults. Only for a child.
void read_what_is_gone(const MappedFile& file) {
  std::filesystem::resize_file(file.path(), 10);
  std::cerr << static_cast<int>(file.bytes().back()) << " was read\n";
}

TEST(MappedFileFault, EndsTheProcessWithTheNameOfTheFile) {
  const TemporaryFolder folder;
  EXPECT_EXIT(
      {
        end_on_mapped_file_faults();
        for (const char* name : {"one", "other"}) {
          std::ofstream(folder / name) << std::string(kBytes, 'x');
        }
        const MappedFile one(folder / "one");
        { const MappedFile gone(folder / "other"); }  // its entry is used again
        MappedFile moved(folder / "other");
        read_what_is_gone(std::move(moved));
      },
      ::testing::ExitedWithCode(1),
      "^reprise: \\[file\\] [^ ]*/other: became shorter or unreadable while it was in use\n$");
}

TEST(MappedFileFault, LeavesOtherSignalsAsTheyWere) {
  EXPECT_EXIT(
      {
        end_on_mapped_file_faults();
        ::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS),
      "");
}

class ShortenedModel : public ::testing::Test {
 protected:
  ShortenedModel() { write_safetensors(path, {{"w", torch::ones({kFloats})}}); }

  static constexpr int64_t kFloats = 1 << 20;
  TemporaryFolder folder;
  std::filesystem::path path = folder / "model.safetensors";
};

TEST_F(ShortenedModel, IsAnErrorWhereItIsCopied) {
  const TensorFile file(path);
  std::filesystem::resize_file(path, 1000);
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto target = torch::empty({kFloats}, dtype);
    expect_error([&] { file.copy_to(*file.find("w"), target); },
                 path.string() + ": became shorter while it was in use");
  }
  expect_error([&] { file.view(*file.find("w")); }, "was replaced while it was in use");
}

TEST_F(ShortenedModel, EndsTheProcessWhereItIsMapped) {
  EXPECT_EXIT(
      {
        end_on_mapped_file_faults();
        const TensorFile file(path);
        const auto view = file.view(*file.find("w"));
        std::filesystem::resize_file(path, 1000);
        std::cerr << view[-1].item<float>() << " was read\n";
      },
      ::testing::ExitedWithCode(1),
      "model.safetensors: became shorter or unreadable while it was in use\n$");
}

}  // namespace
}  // namespace reprise::testing
