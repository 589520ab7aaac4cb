// Content hashes with c10's SHA-1. It is not safe against attackers, but those could edit the cache
// itself; accidental collisions will not happen.
#include "data/dataset/content_key.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <ios>
#include <system_error>

namespace reprise::data {
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
    hash.reset();  // the constructor does not
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

}  // namespace reprise::data

namespace reprise {

namespace fs = std::filesystem;

std::string content_hash(const std::vector<fs::path>& files, const Json& settings) {
  Json key{{"settings", settings}};
  for (const auto& file : files) {
    if (fs::is_regular_file(file)) {
      key["files"].push_back({file.filename().string(), data::content_key(file)});
    }
  }
  return data::hash_text(key.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string tokenizer_key(const fs::path& folder) {
  static constexpr std::array kFiles = {"tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "chat_template.json"};
  std::vector<fs::path> files;
  files.reserve(kFiles.size());
  for (const char* name : kFiles) {
    files.push_back(folder / name);
  }
  std::error_code not_there;
  for (const auto& entry :
       fs::directory_iterator(folder / "additional_chat_templates", not_there)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return content_hash(files, Json::object());
}

}  // namespace reprise
