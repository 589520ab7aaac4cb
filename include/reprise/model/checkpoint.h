// Models from and to Hugging Face directories.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct LoadOptions {
  HeadKind head = HeadKind::CausalLm;
  std::optional<at::ScalarType> dtype = {};  ///< by default what the checkpoint says
  at::Device device = at::kCPU;
  std::optional<int64_t> labels = {};  ///< width of a Score or TokenClasses head that is made anew
  uint64_t seed = 0;                   ///< for a head that the checkpoint does not have
  /// Parameters are views of the files, to be read only, in the stored type and in main memory:
  /// nothing is copied. For models that are spread over processes (parallel/spread.h), where each
  /// takes its part of them. `dtype` and `device` must not be given.
  bool mapped = false;
};

struct LoadedModel {
  std::shared_ptr<Model> model;
  std::vector<std::string> warnings;  ///< to be shown to the user
};

/// Opens a folder with config.json and safetensors, single or sharded. A missing, unexpected or
/// misshapen tensor is refused by name; only a head of another kind than the checkpoint's is made
/// anew, with a warning. The weights are never in memory twice.
REPRISE_API LoadedModel load_model(const std::filesystem::path& folder,
                                   const LoadOptions& options = {});

struct SaveOptions {
  /// The folder the model came from: tokenizer files, chat template and generation_config.json are
  /// copied along. Empty: nothing is copied.
  std::filesystem::path source = {};
  std::optional<at::ScalarType> dtype = {};  ///< by default as it is
  uint64_t max_shard_bytes = uint64_t{5} << 30;
};

/// Writes a folder that transformers and vLLM open. Adapters are not written: merge them first, or
/// save_adapter. All processes that a model is spread over call it, and share the folder; they
/// write the same files as one process would.
REPRISE_API void save_model(const Model& model,
                            const std::filesystem::path& folder,
                            const SaveOptions& options = {});

}  // namespace reprise
