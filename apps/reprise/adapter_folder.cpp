#include "reprise/adapter_folder.h"

#include <reprise/model/lora.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

bool has_weights(const fs::path& folder) {
  constexpr std::array kFiles = {"model.safetensors",
                                 "model.safetensors.index.json",
                                 "pytorch_model.bin",
                                 "pytorch_model.bin.index.json"};
  return std::any_of(
      kFiles.begin(), kFiles.end(), [&](const char* name) { return fs::exists(folder / name); });
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) {
  return fs::exists(folder / "adapter_config.json") && !has_weights(folder);
}

std::string merge_command(const fs::path& adapter) {
  return "`reprise merge --model " + adapter.string() + " --output MERGED`";
}

std::string base_of_adapter(const fs::path& adapter, const std::string& base) {
  std::string found = base;
  if (base.empty()) {
    const std::string named = LoraConfig::read(adapter).base_model;
    TORCH_CHECK(!named.empty(),
                adapter.string(),
                ": adapter_config.json does not name the base model: give its folder as --base");
    found = named;
    for (const fs::path& place : {adapter / named, adapter / ".." / named}) {
      if (!fs::is_directory(found) && fs::is_directory(place)) {
        found = place.lexically_normal().string();
      }
    }
    TORCH_CHECK(fs::is_directory(found),
                adapter.string(),
                ": its base model is ",
                named,
                ", and there is no such folder here: give the base model's folder as --base");
  }
  TORCH_CHECK(!is_adapter_folder(found),
              adapter.string(),
              ": its base ",
              found,
              " is an adapter itself. Merge that first, ",
              merge_command(found),
              ", and give --base MERGED");
  return found;
}

ModelFolders model_folders(const ModelFolders& given, const std::string& base) {
  if (!is_adapter_folder(given.model)) {
    TORCH_CHECK(base.empty(),
                "--base has no effect: --model ",
                given.model,
                given.adapter.empty() ? " is no adapter's folder"
                                      : " is the base of --adapter already; give one or the other");
    return given;
  }
  TORCH_CHECK(given.adapter.empty(),
              "--model ",
              given.model,
              " is a LoRA adapter, and --adapter names another: merge one of them first, ",
              merge_command(given.model));
  return {.model = base_of_adapter(given.model, base), .adapter = given.model};
}

std::string tokenizer_folder(const ModelFolders& folders) {
  const fs::path adapter = folders.adapter;
  const bool has_own = !adapter.empty() && (fs::exists(adapter / "tokenizer.json") ||
                                            fs::exists(adapter / "tokenizer.model"));
  return has_own ? folders.adapter : folders.model;
}

}  // namespace reprise::app
