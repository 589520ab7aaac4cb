// `reprise inspect`: describes a model folder, and the memory that training it takes, without
// loading the weights.
#include "reprise/adapter_folder.h"
#include "reprise/commands.h"
#include "reprise/model_options.h"
#include "reprise/training/options/lora_config.h"

#include <reprise/io/file_format.h>
#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/config.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>
#include <reprise/report/units.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

struct InspectOptions {
  fs::path folder;
  std::string dtype;
  bool text_only = false;
};

void print_row(const std::string& name, const std::string& value) {
  std::cout << std::left << std::setw(20) << name << value << "\n";
}

struct Word {
  std::string_view word, part;
};

// Parts of a model by words in tensor names; the first match decides.
constexpr std::array kParts = {Word{"norm", "norms"},
                               Word{"ln_", "norms"},
                               Word{".mlp.", "mlp"},
                               Word{".fc", "mlp"},
                               Word{"attn", "attention"},
                               Word{"attention", "attention"},
                               Word{"lm_head", "head"},
                               Word{"embed_out", "head"},
                               Word{"output_layer", "head"},
                               Word{"score", "head"},
                               Word{"classifier", "head"},
                               Word{"embed", "embeddings"},
                               Word{"project_", "embeddings"},
                               Word{"wte", "embeddings"},
                               Word{"wpe", "embeddings"}};

// Suffixes of tensors that some checkpoints store although they are not parameters.
constexpr std::array<std::string_view, 4> kBuffers = {
    ".inv_freq", ".attn.bias", ".attention.bias", ".masked_bias"};

bool is_buffer(const std::string& name) {
  return std::any_of(
      kBuffers.begin(), kBuffers.end(), [&](const auto end) { return name.ends_with(end); });
}

std::string part_of(const std::string& name) {
  const auto* found = std::find_if(kParts.begin(), kParts.end(), [&](const Word& entry) {
    return name.find(entry.word) != std::string::npos;
  });
  return std::string(found == kParts.end() ? "other" : found->part);
}

// Ends of tensors that belong to a quantised weight: its scales, tables and settings.
constexpr std::array<std::string_view, 8> kOfQuantized = {".absmax",
                                                          ".nested_absmax",
                                                          ".quant_map",
                                                          ".nested_quant_map",
                                                          ".quant_state.bitsandbytes__nf4",
                                                          ".quant_state.bitsandbytes__fp4",
                                                          ".SCB",
                                                          ".weight_format"};

bool is_of_quantized(const std::string& name) {
  return std::any_of(kOfQuantized.begin(), kOfQuantized.end(), [&](const auto end) {
    return name.ends_with(end);
  });
}

// Two 4-bit codes lie in a byte.
int64_t numbers_in(const TensorInfo& info) {
  const int64_t values = c10::multiply_integers(info.shape);
  return info.dtype == at::kByte ? 2 * values : values;
}

struct Contents {
  uint64_t bytes = 0;
  int64_t parameters = 0;
  int64_t quantized = 0;  // parameters in quantised layers
  int64_t layers = 0;     // that are quantised
  std::map<std::string, int64_t> by_part;
  std::set<std::string> dtypes;
};

/// Names of tensors as a text model has them, and in the files.
std::map<std::string, std::string> tensor_names(const TensorCheckpoint& checkpoint,
                                                const ModelConfig& config,
                                                bool text_only) {
  if (text_only) {
    return text_tensors(checkpoint, config);
  }
  std::map<std::string, std::string> names;
  for (const auto& name : checkpoint.names()) {
    names.emplace(name, name);
  }
  return names;
}

Contents contents_of(const TensorCheckpoint& checkpoint,
                     const std::map<std::string, std::string>& names,
                     bool is_quantized) {
  Contents contents;
  for (const auto& [name, stored] : names) {
    if (is_buffer(name) || (is_quantized && is_of_quantized(name))) {
      continue;
    }
    const auto& info = *checkpoint.find(stored);
    contents.bytes += info.end - info.begin;
    const bool is_code = is_quantized && !at::isFloatingType(info.dtype);
    const int64_t count = is_code ? numbers_in(info) : c10::multiply_integers(info.shape);
    contents.parameters += count;
    contents.quantized += is_code ? count : 0;
    contents.layers += is_code ? 1 : 0;
    contents.by_part[part_of(name)] += count;
    contents.dtypes.insert(dtype_name(info.dtype));
  }
  return contents;
}

std::string tokenizer_kind(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) {
    const Json json = read_json(folder / "tokenizer.json");
    const Json model = json.is_object() ? json.value("model", Json::object()) : Json();
    const bool has_type = model.is_object() && model.contains("type") && model["type"].is_string();
    return "tokenizer.json, " + (has_type ? model["type"].get<std::string>() : "of unknown type");
  }
  return fs::exists(folder / "tokenizer.model") ? "tokenizer.model, sentencepiece" : "none";
}

struct TokenizerSummary {
  std::string tokenizer;
  std::string chat_template;  // empty: there is no usable tokenizer
  std::vector<std::string> warnings;
};

// The weights are usable without a tokenizer, so a broken one is only a warning.
TokenizerSummary summarize_tokenizer(const fs::path& folder) {
  try {
    const auto kind = tokenizer_kind(folder);
    if (kind == "none") {
      return {kind, "", {}};
    }
    const auto tokenizer = Tokenizer::open(folder);
    return {kind + ", " + std::to_string(tokenizer->size()) + " tokens",
            tokenizer->chat_template() != nullptr ? "yes" : "no",
            {}};
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return {"not usable: " + message, "", {"the tokenizer cannot be used: " + message}};
  }
}

void print_architecture(const ModelConfig& config) {
  print_row("family", config.family);
  print_row("architecture", config.architecture.empty() ? "not given" : config.architecture);
  std::ostringstream shape;
  shape << config.layers << " layers, width " << config.hidden << ", mlp " << config.intermediate
        << ", " << config.heads << " heads (" << config.kv_heads << " for keys and values) of "
        << config.head_dim;
  print_row("shape", shape.str());
  print_row("vocabulary",
            std::to_string(config.vocabulary) + (config.tied_head ? ", head tied" : ""));
  print_row("positions", std::to_string(config.max_positions));
}

// Memory that training holds between steps. Activations are not included: they depend on batch
// size, length and checkpointing.
void print_memory(const ModelConfig& config, int64_t parameters, at::ScalarType dtype) {
  const auto count = static_cast<double>(parameters);
  const auto size = static_cast<double>(c10::elementSize(dtype));
  // Two moments in float32, and a float32 copy of 16-bit weights.
  const double adamw = count * (dtype == at::kFloat ? 8 : 12);
  std::cout << "\nMemory in " << dtype_name(dtype) << ", all parameters trained:\n";
  print_row("  weights", human_bytes(count * size));
  print_row("  gradients", human_bytes(count * size));
  print_row("  AdamW state", human_bytes(adamw));
  print_row("  total", human_bytes(2 * count * size + adamw) + ", plus activations");
  const auto cache = 2 * static_cast<double>(config.layers * config.kv_heads * config.head_dim);
  print_row("  KV cache", human_bytes(cache * size) + " per token");
}

// Empty: the folder is not that of an adapter. Otherwise its base model is described.
std::string adapter_text(const ModelFolders& folders) {
  if (folders.adapter.empty()) {
    return "";
  }
  const auto lora = LoraConfig::read(folders.adapter);
  std::ostringstream text;
  text << adapter_kind(lora) << ", rank " << lora.rank << ", alpha " << lora.alpha << ", of "
       << folders.model;
  return text.str();
}

void run_inspect(const InspectOptions& options) {
  refuse_foreign_model(options.folder);
  TORCH_CHECK(fs::is_directory(options.folder),
              options.folder.string(),
              fs::exists(options.folder) ? ": is a file, not a folder" : ": no such folder");
  const auto folders = model_folders({options.folder.string(), ""}, "");
  const auto config = ModelConfig::read(folders.model, chosen_part(options.text_only));
  const TensorCheckpoint checkpoint(folders.model);
  const auto contents = contents_of(checkpoint,
                                    tensor_names(checkpoint, config, options.text_only),
                                    config.quantization.has_value());
  const auto tokenizer = summarize_tokenizer(tokenizer_folder(folders));
  const auto adapter = adapter_text(folders);
  const auto dtype = options.dtype.empty() ? config.dtype : chosen_dtype(options.dtype);
  // Nothing throws from here on, so the output is complete.
  if (!adapter.empty()) {
    print_row("adapter", adapter);
  }
  print_architecture(config);
  print_row("parameters", std::to_string(contents.parameters));
  for (const auto& [part, count] : contents.by_part) {
    print_row("  " + part, std::to_string(count));
  }
  if (config.quantization) {
    print_row("quantised",
              config.quantization->describe() + ", " + std::to_string(contents.layers) +
                  " layers of " + std::to_string(contents.quantized) + " parameters");
  }
  std::string dtypes;
  for (const auto& name : contents.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + name;
  }
  print_row("stored as",
            dtypes + ", " +
                human_bytes(static_cast<double>(options.text_only ? contents.bytes
                                                                  : checkpoint.total_bytes())));
  print_row("tokenizer", tokenizer.tokenizer);
  if (!tokenizer.chat_template.empty()) {
    print_row("chat template", tokenizer.chat_template);
  }
  if (!config.quantization) {  // whose weights are not trained: see reprise plan --lora_r 16
    print_memory(config, contents.parameters, dtype.value_or(at::kFloat));
  }
  print_warnings(config.warnings);
  print_warnings(tokenizer.warnings);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  auto* command = app.add_subcommand(
      "inspect",
      "Describe a model folder and the memory that training it takes, without loading it.");
  command->add_option("folder", options->folder, "Folder of the model")
      ->required()
      ->type_name("DIR");
  add_text_only_option(*command, options->text_only);
  add_dtype_option(
      *command, options->dtype, "Data type for the memory figures; by default that of config.json");
  command->callback([options] { run_inspect(*options); });
}

}  // namespace reprise::app
