// The keys and values at the beginning of a GGUF file.
#pragma once

#include "io/gguf/gguf_cursor.h"

#include "io/gguf/gguf_file.h"

#include <cstdint>

namespace reprise::io {

GgufMetadata read_gguf_metadata(GgufCursor& cursor, uint64_t count);

}  // namespace reprise::io
