// What commands that run a model share: which one, with which adapter, in which type, where.
#pragma once

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
  std::string dtype;              ///< empty: what the checkpoint says
  std::string device;             ///< empty: the GPU if there is one
  bool bf16 = false;              ///< autocast to bfloat16
  bool fp16 = false;              ///< autocast to float16
  bool head_in_float32 = false;
};

/// Adds --model, --adapter, --dtype, --device, --bf16, --fp16 and --cast_lm_head_to_fp32.
void add_model_options(CLI::App& command, ModelOptions& options);
/// Adds --dtype alone: one of the types that weights are stored in.
void add_dtype_option(CLI::App& command, std::string& dtype, const std::string& help);
/// The type that --dtype names; nothing if it was not given.
std::optional<at::ScalarType> chosen_dtype(const std::string& name);

/// A model with a language-model head, in eval mode, and its tokenizer.
struct LanguageModel {
  std::shared_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: the folder has none
  std::vector<int64_t> stop_ids;  ///< generation_config.json's, else config.json's or tokenizer's
  int64_t pad_id = 0;
  std::optional<at::ScalarType> autocast;  ///< the type of products, over float32 parameters
};

/// The ids at which the model's authors end a text: those of generation_config.json, else of
/// config.json, else the tokenizer's (null: there is none).
std::vector<int64_t> stop_ids_of(const std::filesystem::path& folder,
                                 const ModelConfig& config,
                                 const Tokenizer* tokenizer);

/// Opens what the options name; warnings go to stderr.
LanguageModel open_language_model(const ModelOptions& options);

/// To be held while the model is used: the autocast that it was opened for, or none.
AutocastScope autocast_scope(const LanguageModel& opened);

void print_warnings(const std::vector<std::string>& warnings);

}  // namespace reprise::app
