// Hashes by c10's SHA-1: not proof against an attacker, who could as well edit the cache itself,
// but two different files will not meet by chance.
#include "data/content_key.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <ios>

namespace reprise::detail {
namespace {

constexpr uintmax_t kWholeBytes = uintmax_t{64} << 20;
constexpr uintmax_t kEndBytes = uintmax_t{1} << 20;

std::string read_part(const std::filesystem::path& path, uintmax_t offset, uintmax_t count) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(count, '\0');
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  TORCH_CHECK(file.good(), "[data] ", path.string(), ": cannot be read");
  return bytes;
}

int64_t time_of_change(const std::filesystem::path& file) {
  const auto time = std::filesystem::last_write_time(file).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace

std::string hash_text(const std::string& text) {
  c10::sha1 hash(text);
  if (text.empty()) {
    hash.reset();  // which the constructor leaves out
  }
  return hash.str();
}

Json content_key(const std::filesystem::path& file) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(file, failed);
  TORCH_CHECK(!failed, "[data] ", file.string(), ": ", failed.message());
  if (size <= kWholeBytes) {
    return {{"bytes", size}, {"sha1", hash_text(read_file(file, kWholeBytes))}};
  }
  return {{"bytes", size},
          {"changed", time_of_change(file)},
          {"first", hash_text(read_part(file, 0, kEndBytes))},
          {"last", hash_text(read_part(file, size - kEndBytes, kEndBytes))}};
}

}  // namespace reprise::detail
