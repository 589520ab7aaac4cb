// What commands that run a model share: which one, with which adapter, in which type, where.
#pragma once

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
};

/// Adds --model, --adapter, --dtype and --device.
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
};

/// Opens what the options name; warnings go to stderr.
LanguageModel open_language_model(const ModelOptions& options);

void print_warnings(const std::vector<std::string>& warnings);

}  // namespace reprise::app
