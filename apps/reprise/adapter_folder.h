// A folder given as --model may be a LoRA adapter, as peft and TRL take one: the model is then its
// base with the adapter on top. adapter_config.json names the base; --base overrides it.
#pragma once

#include <filesystem>
#include <string>

namespace reprise::app {

/// Whether the folder contains an adapter, and no weights of a model.
bool is_adapter_folder(const std::filesystem::path& folder);

/// The base model of an adapter's folder: `base`, or the folder that adapter_config.json names,
/// looked up from the working directory, then from the adapter's folder and its parent. Throws if
/// there is none.
std::string base_of_adapter(const std::filesystem::path& adapter, const std::string& base = "");

/// A model as the commands open it.
struct ModelFolders {
  std::string model;
  std::string adapter;  ///< empty: none
};

/// Takes apart what --model, --adapter and --base say. Throws if --base has no effect, or if there
/// would be two adapters.
ModelFolders model_folders(const ModelFolders& given, const std::string& base);

/// Where the tokenizer and its chat template are: in the adapter's folder if it has a tokenizer,
/// otherwise in that of the model.
std::string tokenizer_folder(const ModelFolders& folders);

/// The command that makes a model of an adapter, for messages.
std::string merge_command(const std::filesystem::path& adapter);

}  // namespace reprise::app
