// Writes a Hugging Face folder: weights first and config.json last, so that a folder that can be
// loaded is complete. Sharded weights are written by all processes, each its part; the first
// process alone writes the other files.
#include <reprise/model/pretrained.h>

#include "model/families/architecture.h"
#include "model/quantization/quantize_model.h"
#include "model/quantization/stored_weight.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/lora.h>
#include "io/safetensors/distributed_write.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <set>
#include <system_error>

namespace reprise {

namespace {

namespace fs = std::filesystem;

// Files beside the weights that are copied unchanged.
constexpr std::array kTokenizerFiles = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "tokenizer.model",
                                        "tokenizer.model.v3",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "tokenization_chatglm.py"};
constexpr std::array kModelFiles = {
    "generation_config.json", "configuration_chatglm.py", "modeling_chatglm.py", "quantization.py"};

std::string class_name(const Model& model) {
  const std::string& in_file = model.config().architecture;
  const Architecture names = architecture_of(model.config());
  switch (model.head()) {
    case HeadKind::CausalLm:
      return names.keeps_class && !in_file.empty() ? in_file
                                                   : names.class_prefix + names.causal_class;
    case HeadKind::Score:
    case HeadKind::Value:
      return names.class_prefix + names.sequence_class;
    case HeadKind::TokenClasses:
      break;
  }
  return names.class_prefix + names.token_class;
}

Json config_json(const Model& model, at::ScalarType dtype) {
  Json json = model.config().source;
  json["architectures"] = Json::array({class_name(model)});
  json[json.contains("torch_dtype") ? "torch_dtype" : "dtype"] = dtype_name(dtype);
  json.erase("quantization_config");
  if (model.config().quantization) {
    json["quantization_config"] = model.config().quantization->to_json();
  }
  const auto labels = json.find("id2label");
  const bool has_names = labels != json.end() && labels->is_object() &&
                         static_cast<int64_t>(labels->size()) == model.outputs();
  if (model.head() != HeadKind::CausalLm && !has_names) {
    Json names = Json::object(), ids = Json::object();
    for (int64_t label = 0; label < model.outputs(); ++label) {
      const std::string name = "LABEL_" + std::to_string(label);
      names[std::to_string(label)] = name;
      ids[name] = label;
    }
    json["id2label"] = names;
    json["label2id"] = ids;
  }
  return json;
}

Json generation_config(const ModelConfig& config) {
  Json json = {{"_from_model_config", true}};
  if (config.bos_id) {
    json["bos_token_id"] = *config.bos_id;
  }
  if (config.eos_ids.size() == 1) {
    json["eos_token_id"] = config.eos_ids.front();
  } else if (!config.eos_ids.empty()) {
    json["eos_token_id"] = config.eos_ids;
  }
  if (config.pad_id) {
    json["pad_token_id"] = *config.pad_id;
  }
  return json;
}

template <class Names>
void copy_files(const Names& names, const fs::path& source, const fs::path& folder) {
  for (const char* name : names) {
    if (fs::exists(source / name)) {
      write_file(folder / name, read_file(source / name));
    }
  }
}

// Each tensor is converted and copied to the CPU only when it is written.
std::vector<LazyTensor> tensors_of(const Model& model, at::ScalarType dtype) {
  std::vector<LazyTensor> tensors;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor parameter = item.value().detach();
    tensors.push_back({item.key(), dtype, parameter.sizes().vec(), [parameter, dtype] {
                         return parameter.to(at::kCPU, dtype);
                       }});
  }
  for (const auto& [path, linear] : linears_of(model)) {
    if (linear->quantized() != nullptr) {
      const auto own = stored_tensors(path, *linear->quantized());
      tensors.insert(tensors.end(), own.begin(), own.end());
    }
  }
  return tensors;
}

// Unchanged buffers that the family's own code expects in its checkpoints.
NamedTensors carried_buffers(const Model& model, const fs::path& source) {
  NamedTensors buffers;
  const auto ends = architecture_of(model.config()).carried_buffers;
  if (source.empty() || ends.empty()) {
    return buffers;
  }
  const TensorCheckpoint checkpoint(source);
  for (const auto& name : checkpoint.names()) {
    for (const auto& end : ends) {
      if (name.ends_with(end)) {
        buffers.emplace_back(name, checkpoint.view(name).clone());
      }
    }
  }
  return buffers;
}

void write_whole_weights(const Model& model,
                         const fs::path& folder,
                         const SaveOptions& options,
                         at::ScalarType dtype) {
  auto tensors = tensors_of(model, dtype);
  for (const auto& [name, buffer] : carried_buffers(model, options.source)) {
    tensors.push_back(
        {name, buffer.scalar_type(), buffer.sizes().vec(), [buffer = buffer] { return buffer; }});
  }
  stream_checkpoint(folder, tensors, options.max_shard_bytes);
}

// Parameters of a sharded model may have no memory: their values are in the parts of all ranks.
void write_sharded_weights(const Model& model,
                           const fs::path& folder,
                           const SaveOptions& options,
                           at::ScalarType dtype) {
  const ShardedParameters& sharded = *model.sharded_parameters();
  std::vector<TensorInfo> tensors;
  std::vector<TensorPart> parts;
  for (const auto& item : model.named_parameters()) {
    tensors.push_back({item.key(), dtype, item.value().sizes().vec(), 0, 0});
    parts.push_back(sharded.part_of(item.key(), item.value()));
  }
  NamedTensors buffers;
  sharded.world().run_on_all("reading " + options.source.string(),
                             [&] { buffers = carried_buffers(model, options.source); });
  for (const auto& [name, buffer] : buffers) {
    tensors.push_back({name, buffer.scalar_type(), buffer.sizes().vec(), 0, 0});
    parts.push_back({name, buffer.sizes().vec(), 0, buffer});
  }
  io::write_checkpoint_distributed(
      sharded.world(), folder, tensors, parts, options.max_shard_bytes);
}

void write_companions(const Model& model,
                      const fs::path& folder,
                      const SaveOptions& options,
                      at::ScalarType dtype) {
  if (!options.source.empty() && !fs::equivalent(options.source, folder)) {
    copy_files(kModelFiles, options.source, folder);
    copy_tokenizer(options.source, folder);
  }
  if (!fs::exists(folder / "generation_config.json")) {
    write_json(folder / "generation_config.json", generation_config(model.config()));
  }
  write_json(folder / "config.json", config_json(model, dtype));
}

}  // namespace

void copy_tokenizer(const fs::path& source, const fs::path& folder) {
  copy_files(kTokenizerFiles, source, folder);
  const fs::path templates = "additional_chat_templates";
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(source / templates, not_there)) {
    if (entry.is_regular_file() && entry.path().extension() == ".jinja") {
      create_folder(folder / templates);
      write_file(folder / templates / entry.path().filename(), read_file(entry.path()));
    }
  }
}

void save_model(const Model& model, const fs::path& folder, const SaveOptions& options) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(
      !has_lora(model),
      "[save] the model has LoRA adapters: write them with save_adapter, or merge_lora first.");
  TORCH_CHECK(model.sharded_parameters() == nullptr || !is_quantized(model),
              "[save] a quantised model is saved by one process that is no part of a world.");
  const auto dtype = options.dtype.value_or(model.dtype());
  const World& world =
      model.sharded_parameters() == nullptr ? World::single() : model.sharded_parameters()->world();
  world.run_on_first("making " + folder.string(), [&] {
    TORCH_CHECK(options.source.empty() || fs::is_directory(options.source),
                "[save] ",
                options.source.string(),
                ": no such folder to copy the tokenizer from.");
    create_folder(folder);
  });
  const auto write_weights =
      model.sharded_parameters() == nullptr ? write_whole_weights : write_sharded_weights;
  write_weights(model, folder, options, dtype);
  world.run_on_first("completing " + folder.string(),
                     [&] { write_companions(model, folder, options, dtype); });
}

}  // namespace reprise
