// Scaled rotary embeddings, as config.json and GGUF say them.
#pragma once

#include "io/gguf/gguf_fields.h"

#include <reprise/model/config.h>
#include "io/gguf/gguf_write.h"

#include <string>
#include <vector>

namespace reprise::convert {

/// llama3's scaling in GGUF: a tensor with a divisor for each frequency.
inline constexpr const char* kRopeDivisors = "rope_freqs.weight";

/// Empty unless the scaling is llama3's.
std::vector<float> rope_divisors(const ModelConfig& config);

/// Adds the keys of the rotary embedding. Throws for a scaling that GGUF cannot say.
void export_rope(const ModelConfig& config,
                 const std::string& architecture,
                 io::GgufValues& values);

/// rope_scaling of config.json; null: none. `prefix` is "<architecture>.", `dims` what is rotated.
Json import_rope(const io::GgufFile& file, const std::string& prefix, int64_t dims, double theta);

}  // namespace reprise::convert
