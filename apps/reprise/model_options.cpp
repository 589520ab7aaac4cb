#include "reprise/model_options.h"

#include "reprise/adapter_folder.h"
#include "reprise/device.h"

#include <reprise/io/json.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>

#include <c10/util/Exception.h>

#include <iostream>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

std::vector<int64_t> ids_in(const Json& value, const std::string& where) {
  std::vector<int64_t> ids;
  for (const auto& id : value.is_array() ? value : Json::array({value})) {
    TORCH_CHECK(id.is_number_integer(),
                where,
                ": eos_token_id: expected an id or a list of ids, found ",
                kind_of(id));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "tokenizer.json") ||
         std::filesystem::exists(folder / "tokenizer.model");
}

std::vector<int64_t> stop_ids_of(const std::filesystem::path& folder,
                                 const ModelConfig& config,
                                 const Tokenizer* tokenizer) {
  const auto file = folder / "generation_config.json";
  if (std::filesystem::exists(file)) {
    const Json json = read_json(file);
    if (json.is_object() && json.contains("eos_token_id") && !json["eos_token_id"].is_null()) {
      return ids_in(json["eos_token_id"], file.string());
    }
  }
  if (!config.eos_ids.empty()) {
    return config.eos_ids;
  }
  const auto eos = tokenizer != nullptr ? tokenizer->special_tokens().eos : std::nullopt;
  return eos ? std::vector<int64_t>{*eos} : std::vector<int64_t>{};
}

void add_dtype_option(CLI::App& command, std::string& dtype, const std::string& help) {
  command.add_option("--dtype", dtype, help)
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
}

std::optional<at::ScalarType> chosen_dtype(const std::string& name) {
  return name.empty() ? std::nullopt : dtype_named(name);
}

void add_text_only_option(CLI::App& command, bool& text_only) {
  command.add_flag(
      "--text_only", text_only, "Open the text part alone of a model that also sees or hears");
}

ModelPart chosen_part(bool text_only) {
  return text_only ? ModelPart::Text : ModelPart::Whole;
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.model, "Model, or LoRA adapter")
      ->required()
      ->type_name("DIR");
  command.add_option("--adapter", options.adapter, "Folder of a LoRA adapter to apply")
      ->type_name("DIR");
  command
      .add_option("--base",
                  options.base,
                  "Base model, if --model is an adapter; by default the folder that its "
                  "adapter_config.json names")
      ->type_name("DIR");
  add_text_only_option(command, options.text_only);
  add_dtype_option(
      command, options.dtype, "Data type of the weights; by default that of the checkpoint");
  add_device_option(command, options.device);
}

void add_precision_options(CLI::App& command, ModelOptions& options) {
  auto* bf16 = command.add_flag(
      "--bf16",
      options.bf16,
      "Mixed precision (autocast): weights in float32, matrix products in bfloat16");
  command
      .add_flag("--fp16",
                options.fp16,
                "Mixed precision (autocast): weights in float32, matrix products in float16")
      ->excludes(bf16);
  command.add_flag(
      "--cast_lm_head_to_fp32", options.head_in_float32, "Compute the logits in float32");
  add_quantized_base_options(command, options.quantized);
}

ModelOptions with_folders(ModelOptions options) {
  const auto folders =
      model_folders({options.model.string(), options.adapter.string()}, options.base.string());
  options.model = folders.model;
  options.adapter = folders.adapter;
  return options;
}

LanguageModel open_language_model(const ModelOptions& given) {
  const ModelOptions options = with_folders(given);
  LanguageModel result;
  LoadOptions load;
  load.dtype = chosen_dtype(options.dtype);
  load.part = chosen_part(options.text_only);
  if (options.bf16 || options.fp16) {
    TORCH_CHECK(load.dtype.value_or(at::kFloat) == at::kFloat,
                options.bf16 ? "--bf16" : "--fp16",
                " keeps the weights in float32: leave out --dtype ",
                options.dtype);
    load.dtype = at::kFloat;
    result.autocast = options.bf16 ? at::kBFloat16 : at::kHalf;
  }
  load.quantization = quantization_of(options.quantized);
  load.device = choose_device(options.device);
  auto loaded = load_model(options.model, load);
  print_warnings(loaded.warnings);
  result.model = std::move(loaded.model);
  TORCH_CHECK(!options.head_in_float32 || result.autocast || result.model->dtype() != at::kFloat,
              "--cast_lm_head_to_fp32 has no effect: the model is in float32, and so is its head. "
              "See --dtype, --bf16 and --fp16");
  result.model->compute_head_in_float32(options.head_in_float32);
  if (!options.adapter.empty()) {
    load_adapter(*result.model, options.adapter);
  }
  result.model->eval();
  const fs::path texts = tokenizer_folder({options.model.string(), options.adapter.string()});
  if (has_tokenizer(texts)) {
    result.tokenizer = Tokenizer::open(texts);
  }
  const auto& config = result.model->config();
  result.stop_ids = stop_ids_of(options.model, config, result.tokenizer.get());
  result.pad_id = config.pad_id.value_or(0);
  if (result.pad_id < 0 || result.pad_id >= config.vocabulary) {
    result.pad_id = 0;  // any id works, as padding is masked
  }
  return result;
}

AutocastScope autocast_scope(const LanguageModel& opened) {
  return AutocastScope(opened.model->device().type(),
                       opened.autocast.value_or(at::kFloat),
                       /*enabled=*/opened.autocast.has_value());
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) {
    std::cerr << "warning: " << warning << "\n";
  }
}

}  // namespace reprise::app
