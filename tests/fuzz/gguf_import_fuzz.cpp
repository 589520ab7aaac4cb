// libFuzzer: any bytes as a GGUF file whose metadata becomes config.json, tokenizer.json and
// tokenizer_config.json. They are refused with c10::Error; what is made of them can be written.
#include "fuzzed_file.h"

#include "convert/gguf_config.h"
#include "convert/gguf_tokenizer.h"

#include <reprise/model/config.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const reprise::testing::FuzzedFile bytes({data, size});
  try {
    const reprise::io::GgufFile file(bytes.path());
    std::vector<std::string> warnings;
    const auto tokenizer = reprise::convert::imported_tokenizer(file, warnings);
    reprise::json_text(tokenizer.tokenizer, "fuzz");
    reprise::json_text(tokenizer.tokenizer_config, "fuzz");
    const auto config = reprise::convert::imported_config(file, at::kFloat, warnings);
    reprise::json_text(config, "fuzz");
    reprise::ModelConfig::from_json(config, "fuzz");
    reprise::json_text(reprise::convert::generation_config(file), "fuzz");
  } catch (const c10::Error&) {
  }
  return 0;
}
