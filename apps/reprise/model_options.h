// Options that commands with a model share: its folder, adapter, data type and device.
#pragma once

#include "reprise/quantized_base.h"

#include <reprise/autocast.h>
#include <reprise/model/model.h>
#include <reprise/text/tokenizer.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

struct ModelOptions {
  std::filesystem::path model;
  std::filesystem::path adapter;  ///< empty: none
  std::filesystem::path base;     ///< of an adapter given as `model`
  std::string dtype;              ///< empty: that of the checkpoint
  std::string device;             ///< empty: the GPU if there is one
  bool text_only = false;         ///< the text part of a model that has others
  bool bf16 = false;              ///< autocast to bfloat16
  bool fp16 = false;              ///< autocast to float16
  bool head_in_float32 = false;
  QuantizedBase quantized;
};

/// Adds --model, --adapter, --base, --text_only, --dtype and --device.
void add_model_options(CLI::App& command, ModelOptions& options);
/// Adds --bf16, --fp16, --cast_lm_head_to_fp32 and those of quantized_base.h, for commands that
/// compute with the model.
void add_precision_options(CLI::App& command, ModelOptions& options);
void add_text_only_option(CLI::App& command, bool& text_only);
ModelPart chosen_part(bool text_only);
/// Adds --dtype only.
void add_dtype_option(CLI::App& command, std::string& dtype, const std::string& help);
/// The type that --dtype names; std::nullopt if it was not given.
std::optional<at::ScalarType> chosen_dtype(const std::string& name);

/// A model with a language-model head, in eval mode, and its tokenizer.
struct LanguageModel {
  std::shared_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: the folder has none
  std::vector<int64_t> stop_ids;               ///< see stop_ids_of()
  int64_t pad_id = 0;
  std::optional<at::ScalarType> autocast;  ///< type of matrix products with float32 parameters
};

bool has_tokenizer(const std::filesystem::path& folder);

/// The same options with the base model as `model`, where --model is an adapter's folder.
ModelOptions with_folders(ModelOptions options);

/// The ids that end a text: those of generation_config.json, otherwise of config.json, otherwise of
/// the tokenizer (may be null).
std::vector<int64_t> stop_ids_of(const std::filesystem::path& folder,
                                 const ModelConfig& config,
                                 const Tokenizer* tokenizer);

/// Opens the model and its tokenizer; warnings go to stderr.
LanguageModel open_language_model(const ModelOptions& options);

/// Keep this alive while the model runs: it enables the autocast that the model was opened with.
AutocastScope autocast_scope(const LanguageModel& opened);

void print_warnings(const std::vector<std::string>& warnings);

}  // namespace reprise::app
