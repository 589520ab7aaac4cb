// Content hashes with c10's SHA-1. It is not safe against attackers, but those could edit the cache
// itself; accidental collisions will not happen.
#include "data/dataset/content_key.h"

#include "data/dataset/remembered_hash.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace reprise::data {
namespace {

constexpr uintmax_t kWholeBytes = uintmax_t{64} << 20;

}  // namespace

std::string hash_text(const std::string& text) {
  c10::sha1 hash(text);
  if (text.empty()) {
    hash.reset();  // the constructor does not
  }
  return hash.str();
}

Json content_key(const std::filesystem::path& file, const std::filesystem::path& cache) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(file, failed);
  TORCH_CHECK(!failed, "[data] ", file.string(), ": ", failed.message());
  if (size <= kWholeBytes) {
    return {{"bytes", size}, {"sha1", hash_text(read_file(file, kWholeBytes))}};
  }
  return {{"bytes", size}, {"sha1_of_parts", remembered_hash(file, cache)}};
}

}  // namespace reprise::data

namespace reprise {

namespace fs = std::filesystem;

std::string content_hash(const std::vector<fs::path>& files,
                         const Json& settings,
                         const fs::path& cache) {
  Json key{{"settings", settings}};
  for (const auto& file : files) {
    if (fs::is_regular_file(file)) {
      key["files"].push_back({file.filename().string(), data::content_key(file, cache)});
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
