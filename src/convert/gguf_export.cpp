// A Hugging Face folder to GGUF.
#include <reprise/convert/gguf.h>

#include "convert/gguf_config.h"
#include "convert/gguf_tensors.h"
#include "convert/gguf_tokenizer.h"
#include "io/gguf/gguf_quantize.h"
#include "io/gguf/gguf_write.h"

#include <reprise/model/pretrained.h>

#include <c10/util/Exception.h>

#include <iterator>
#include <utility>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using io::GgufType;

GgufType type_of(const std::string& name, at::ScalarType stored) {
  if (name.empty()) {
    return stored == at::kBFloat16 ? GgufType::BF16
           : stored == at::kHalf   ? GgufType::F16
                                   : GgufType::F32;
  }
  const auto type = io::gguf_output_type(name);
  TORCH_CHECK(type.has_value(),
              "[gguf] export: type: expected f32, f16, bf16 or q8_0, found \"",
              name,
              "\"");
  return *type;
}

/// llama.cpp's number for a file most of whose tensors have this type.
uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::F16:
      return 1;
    case GgufType::Q80:
      return 7;
    case GgufType::BF16:
      return 32;
    default:
      return 0;
  }
}

ModelConfig checked_config(const fs::path& folder) {
  TORCH_CHECK(!fs::exists(folder / "adapter_config.json"),
              "[gguf] ",
              folder.string(),
              ": is an adapter: merge it into its base first (reprise merge)");
  ModelConfig config = ModelConfig::read(folder);
  TORCH_CHECK(!config.quantization,
              "[gguf] ",
              folder.string(),
              ": is quantised by bitsandbytes, which GGUF does not have: export the model that was "
              "quantised, or dequantise this one (reprise merge does)");
  const std::string& kind = config.architecture;
  TORCH_CHECK(
      !kind.ends_with("ForSequenceClassification") && !kind.ends_with("ForTokenClassification"),
      "[gguf] ",
      folder.string(),
      ": expected a language model, found ",
      kind);
  return config;
}

void append(io::GgufValues& values, io::GgufValues more) {
  values.insert(
      values.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string name_of(const fs::path& folder) {
  const fs::path whole = fs::weakly_canonical(folder);
  return whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
}

}  // namespace

ConvertReport export_gguf(const fs::path& folder,
                          const fs::path& file,
                          const ExportOptions& options) {
  const ModelConfig config = checked_config(folder);
  ConvertReport report;
  io::GgufValues architecture = convert::exported_config(config, report.warnings);
  io::GgufValues tokenizer =
      convert::exported_tokenizer(folder, config.vocabulary, report.warnings);
  const LoadedModel loaded = load_model(folder, {.mapped = true});
  report.warnings.insert(report.warnings.end(), loaded.warnings.begin(), loaded.warnings.end());
  const GgufType type = type_of(options.type, *loaded.model->config().dtype);
  io::GgufValues values = {
      {"general.architecture", std::string(convert::gguf_family(config)->architecture)},
      {"general.type", "model"},
      {"general.name", name_of(folder)},
      {"general.file_type", file_type(type)},
      {"general.quantization_version", uint32_t{2}}};
  append(values, std::move(architecture));
  append(values, std::move(tokenizer));
  const auto tensors = convert::exported_tensors(*loaded.model, type, report.warnings);
  report.tensors = static_cast<int64_t>(tensors.size());
  for (const auto& item : loaded.model->named_parameters()) {
    report.parameters += item.value().numel();
  }
  report.bytes = io::write_gguf(file, values, tensors);
  return report;
}

}  // namespace reprise
