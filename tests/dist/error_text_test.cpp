// Errors of libraries, injected: each comes out as one line that says what, where and what to do.
#include <reprise/dist/error_text.h>

#include "support/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error_text(error);
  }
  return "";
}

void expect_line(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nfound: " << text;
  }
  for (const char* raw : {"filesystem error", "enforce fail", "json.exception", "\n"}) {
    EXPECT_EQ(text.find(raw), std::string::npos) << text;
  }
}

TEST(ErrorText, OfMemoryNamesTheSize) {
  expect_line(text_of([] { at::empty({int64_t{1} << 48}, at::kFloat); }),
              {"out of memory: 1048576.00 GiB could not be allocated", "Use smaller batches"});
  expect_line(text_of([] { throw std::bad_alloc(); }), {"out of memory", "Use smaller batches"});
  expect_line(text_of([] { std::string().resize(std::string().max_size() + 1); }),
              {"out of memory", "Use smaller batches"});
  expect_line(text_of([] {
                TORCH_CHECK(false,
                            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
                            "capacity of 3 GiB. If reserved\nbut unallocated memory is large");
              }),
              {"out of memory: on the GPU: Tried to allocate 20.00 MiB could not"});
}

TEST(ErrorText, ThatQuotesTheAllocatorStays) {
  expect_line(text_of([] {
                TORCH_CHECK(false, "out of memory in step 1. It said: DefaultCPUAllocator: no");
              }),
              {"out of memory in step 1. It said: DefaultCPUAllocator: no"});
}

TEST(ErrorText, OfFilesNamesThePathAndWhatToDo) {
  const testing::TemporaryFolder folder;
  fs::create_symlink(folder / "b", folder / "a");
  fs::create_symlink(folder / "a", folder / "b");
  expect_line(text_of([&] { std::ignore = fs::is_directory(folder / "a"); }),
              {(folder / "a").string(), "cannot be opened", "symbolic links", "remove one"});
  expect_line(text_of([&] { std::ignore = fs::file_size(folder / "none"); }),
              {(folder / "none").string(), "cannot get file size", "No such file"});
  expect_line(text_of([&] { fs::rename(folder / "none", folder / "other"); }),
              {(folder / "none").string(), "cannot rename (to ", (folder / "other").string()});
  std::ofstream(folder / "file") << "x";
  expect_line(text_of([&] { fs::create_directories(folder / "file" / "below"); }),
              {(folder / "file").string(), "cannot create directories", "Not a directory"});
  expect_line(text_of([&] { fs::create_directory(folder / std::string(300, 'n')); }),
              {"File name too long", "Choose a shorter name"});
  expect_line(text_of([&] {
                throw fs::filesystem_error(
                    "cannot copy", "x", std::error_code(ENOSPC, std::generic_category()));
              }),
              {"x: cannot copy: No space left on device. Free disk space"});
}

TEST(ErrorText, OfOtherLibraries) {
  expect_line(text_of([] { nlohmann::json("text").get<int>(); }),
              {"a JSON value is not what was expected: type must be number, but is string"});
  expect_line(text_of([] { const std::regex bad("("); }), {"a regular expression cannot be used"});
  expect_line(text_of([] {
                throw std::system_error(EAGAIN, std::generic_category(), "cannot start a thread");
              }),
              {"the system refuses: cannot start a thread: Resource temporarily"});
  expect_line(text_of([] { TORCH_CHECK(false, "[op] ours"); }), {"[op] ours"});
  expect_line(text_of([] { throw std::runtime_error("plain"); }), {"plain"});
}

}  // namespace
}  // namespace reprise
