// Keys of caches that callers make.
#include "data/content_key.h"

#include <reprise/data/dataset.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace reprise {

namespace fs = std::filesystem;

std::string content_hash(const std::vector<fs::path>& files, const Json& settings) {
  Json key{{"settings", settings}};
  for (const auto& file : files) {
    if (fs::is_regular_file(file)) {
      key["files"].push_back({file.filename().string(), detail::content_key(file)});
    }
  }
  return detail::hash_text(key.dump(-1, ' ', false, Json::error_handler_t::replace));
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
