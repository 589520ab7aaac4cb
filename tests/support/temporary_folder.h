// A folder of its own for a test, gone afterwards.
#pragma once

#include <c10/util/Exception.h>

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace reprise::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise-XXXXXX").string();
    TORCH_CHECK(mkdtemp(pattern.data()) != nullptr, "no temporary folder: ", pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace reprise::testing
