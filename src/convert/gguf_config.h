// config.json and the keys of a GGUF file that say the same.
#pragma once

#include "convert/gguf_families.h"

#include <reprise/io/json.h>
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_write.h"

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace reprise::convert {

/// The config.json of the model in a file. Throws for an architecture that is not known, and for
/// keys that change what is computed and have no counterpart. Adds other keys to `warnings`.
Json imported_config(const io::GgufFile& file,
                     at::ScalarType dtype,
                     std::vector<std::string>& warnings);

Json generation_config(const io::GgufFile& file);

/// The keys of the architecture. Throws for a family, or for a value of it, that GGUF lacks.
io::GgufValues exported_config(const ModelConfig& config, std::vector<std::string>& warnings);

}  // namespace reprise::convert
