// A folder that is gone after the test, and errors as tests look at them.
#pragma once

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise-XXXXXX").string();
    TORCH_CHECK(::mkdtemp(name.data()) != nullptr, "no temporary folder ", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  /// All names in it, hidden ones as well, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

/// The message of the c10::Error that `action` throws; "" if it throws none. Any other exception
/// is the test's failure.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

inline void expect_error(const std::function<void()>& action, const std::string& part) {
  const std::string message = error_of(action);
  EXPECT_NE(message.find(part), std::string::npos)
      << "expected an error with: " << part << "\nfound: " << message;
}

}  // namespace reprise::testing
