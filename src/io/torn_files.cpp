// Recognises torn files by their names and by the time of their last write.
#include "io/torn_files.h"

#include <reprise/io/file.h>

#include <sys/types.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise {

namespace io {
namespace {

namespace fs = std::filesystem;

/// Removes a trailing ".<number>" from a name and returns the number.
std::optional<int64_t> take_number(std::string_view& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(dot + 1);
  int64_t number = -1;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end() || number < 0) {
    return std::nullopt;
  }
  name.remove_suffix(digits.size() + 1);
  return number;
}

bool is_alive(int64_t process) {
  const auto number = static_cast<pid_t>(process);
  // Signal 0 only checks for the process; EPERM means that it exists.
  return number > 0 && number == process && (::kill(number, 0) == 0 || errno == EPERM);
}

bool is_abandoned(const fs::path& path) {
  const auto writer = writer_of_torn_file(path);
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (!writer || error) {
    return false;
  }
  const auto age = fs::file_time_type::clock::now() - written;
  return age > std::chrono::hours(24) || (age > std::chrono::minutes(10) && !is_alive(*writer));
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    found.push_back(entry->path());
  }
  return found;
}

void remove_abandoned(const std::vector<fs::path>& paths) {
  std::error_code error;
  for (const fs::path& path : paths) {
    if (is_abandoned(path)) {
      fs::remove(path, error);
    }
  }
}

}  // namespace

std::optional<int64_t> writer_of_torn_file(const fs::path& path) {
  const std::string whole = path.filename().string();
  std::string_view name = whole;
  const auto serial = take_number(name);
  const auto process = serial ? take_number(name) : std::nullopt;
  std::error_code error;
  const bool is_torn = process && name.size() > 1 && name.front() == '.' &&
                       fs::symlink_status(path, error).type() == fs::file_type::regular;
  return is_torn ? process : std::nullopt;
}

void remove_abandoned_files(const fs::path& folder) noexcept {
  try {
    const auto paths = entries(folder);
    remove_abandoned(paths);
    for (const fs::path& path : paths) {
      std::error_code error;
      if (fs::is_directory(fs::symlink_status(path, error))) {
        remove_abandoned(entries(path));
      }
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to list them; they do no harm
  }
}

}  // namespace io

void remove_unfinished_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> unfinished;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (io::writer_of_torn_file(entry.path())) {
      unfinished.push_back(entry.path());
    }
  }
  for (const auto& path : unfinished) {
    std::filesystem::remove(path);
  }
}

}  // namespace reprise
