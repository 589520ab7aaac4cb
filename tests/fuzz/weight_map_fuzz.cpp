// libFuzzer: any JSON as a model.safetensors.index.json. The shards that it may name are files of
// its own folder.
#include "fuzzed_json.h"

#include "io/safetensors/weight_map.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return reprise::testing::fuzz_json(data, size, [](const reprise::Json& json) {
    for (const auto& [tensor, shard] : reprise::io::read_weight_map(json, "fuzz")) {
      const bool is_plain = !shard.empty() && shard != "." && shard != ".." &&
                            shard.find('/') == std::string::npos &&
                            shard.find('\0') == std::string::npos;
      if (!is_plain) {
        std::abort();
      }
    }
  });
}
