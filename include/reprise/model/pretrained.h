// Loading models from Hugging Face folders, and saving them.
//
//   const auto [model, warnings] = reprise::load_model("Llama-3.2-1B", {.dtype = at::kBFloat16});
//   reprise::save_model(*model, "out", {.source = "Llama-3.2-1B"});
#pragma once

#include <reprise/export.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/model.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct LoadOptions {
  HeadKind head = HeadKind::CausalLm;
  std::optional<at::ScalarType> dtype = {};  ///< unset: as in the checkpoint
  at::Device device = at::kCPU;
  std::optional<int64_t> labels = {};  ///< width of a new Score or TokenClasses head
  ModelPart part = ModelPart::Whole;   ///< which tensors and fields of a folder are the model
  uint64_t seed = 0;                   ///< for a head that the checkpoint does not have
  /// Maps the files into memory instead of copying them: parameters are read-only CPU tensors of
  /// the stored type. For models that are sharded over processes (parallel/shard.h), where each
  /// process copies its part. `dtype` and `device` must not be set.
  bool mapped = false;
  /// Quantises the linear layers, one after the other, as quantize_model() does; the whole model is
  /// never in memory unquantised. Unset: as in the checkpoint, which may be quantised itself.
  std::optional<QuantizationConfig> quantization = {};
};

struct LoadedModel {
  std::shared_ptr<Model> model;
  std::vector<std::string> warnings;  ///< to show to the user
};

/// Loads a folder with config.json and one or several safetensors files. Throws, naming the tensor,
/// if one is missing, unexpected or of the wrong shape; only a head of another kind than the
/// checkpoint's is newly initialised, with a warning. Weights are never in memory twice.
REPRISE_API LoadedModel load_model(const std::filesystem::path& folder,
                                   const LoadOptions& options = {});

/// The tensors of the text part of a folder that has other parts: the names that a text model has,
/// and those in the files.
REPRISE_API std::map<std::string, std::string> text_tensors(const TensorCheckpoint& checkpoint,
                                                            const ModelConfig& config);

struct SaveOptions {
  /// The folder that the model was loaded from: tokenizer files, chat template and
  /// generation_config.json are copied from it. Empty: nothing is copied.
  std::filesystem::path source = {};
  std::optional<at::ScalarType> dtype = {};  ///< unset: the model's own
  uint64_t max_shard_bytes = uint64_t{5} << 30;
};

/// Writes a folder that transformers and vLLM can load; quantised weights as bitsandbytes stores
/// them, which `dtype` does not change. Throws if the model has adapters: merge
/// them first, or use save_adapter(). If the model is sharded, all of its processes must call it
/// with the same folder; they write the same files as one process would.
REPRISE_API void save_model(const Model& model,
                            const std::filesystem::path& folder,
                            const SaveOptions& options = {});

/// Copies tokenizer files and chat template, as save_model() does, without generation_config.json.
/// Files that `source` does not have are left alone.
REPRISE_API void copy_tokenizer(const std::filesystem::path& source,
                                const std::filesystem::path& folder);

}  // namespace reprise
