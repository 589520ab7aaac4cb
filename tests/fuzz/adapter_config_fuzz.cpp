// libFuzzer: any JSON as the adapter_config.json of a LoRA adapter. What is accepted can be written
// and read again.
#include "fuzzed_json.h"

#include <reprise/model/lora.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return reprise::testing::fuzz_json(data, size, [](const reprise::Json& json) {
    const auto config = reprise::LoraConfig::from_json(json, "fuzz");
    const auto again = reprise::LoraConfig::from_json(config.to_json(), "fuzz");
    if (config.rank < 1 || again.rank != config.rank || again.layers != config.layers) {
      std::abort();
    }
  });
}
