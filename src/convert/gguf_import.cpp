// GGUF to a Hugging Face folder. Everything is checked before anything is written, and config.json,
// without which a folder cannot be loaded, is written last.
#include <reprise/convert/gguf.h>

#include "convert/gguf_config.h"
#include "convert/gguf_tensors.h"
#include "convert/gguf_tokenizer.h"
#include "io/gguf/gguf_file.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>

namespace reprise {
namespace {

void count(const std::vector<LazyTensor>& weights, ConvertReport& report) {
  report.tensors = static_cast<int64_t>(weights.size());
  for (const LazyTensor& weight : weights) {
    int64_t elements = 1;
    for (const int64_t size : weight.shape) {
      elements *= size;
    }
    report.parameters += elements;
    report.bytes += static_cast<uint64_t>(elements) * c10::elementSize(weight.dtype);
  }
}

}  // namespace

ConvertReport import_gguf(const std::filesystem::path& file,
                          const std::filesystem::path& folder,
                          const ImportOptions& options) {
  const io::GgufFile gguf(file);
  ConvertReport report;
  const Json config = convert::imported_config(gguf, options.dtype, report.warnings);
  const ModelConfig checked = ModelConfig::from_json(config, file.string() + ", as config.json");
  const Json generation = convert::generation_config(gguf);
  const convert::GgufTokenizer tokenizer = convert::imported_tokenizer(gguf, report.warnings);
  const auto weights = convert::imported_tensors(gguf, checked, options.dtype);
  count(weights, report);

  // Text that is not UTF-8 is only found when it is written as JSON. Do that before the folder is
  // created.
  for (const Json* json :
       {&tokenizer.tokenizer, &tokenizer.tokenizer_config, &generation, &config}) {
    json_text(*json, file.string());
  }
  create_folder(folder);
  if (!tokenizer.tokenizer.is_null()) {
    write_json(folder / "tokenizer.json", tokenizer.tokenizer);
    write_json(folder / "tokenizer_config.json", tokenizer.tokenizer_config);
  }
  write_json(folder / "generation_config.json", generation);
  stream_checkpoint(folder, weights);
  write_json(folder / "config.json", config);
  return report;
}

}  // namespace reprise
