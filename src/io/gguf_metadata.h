// The keys and values at the beginning of a GGUF file.
#pragma once

#include "io/gguf_cursor.h"

#include <reprise/io/gguf.h>

#include <cstdint>

namespace reprise::detail {

GgufMetadata read_gguf_metadata(GgufCursor& cursor, uint64_t count);

}  // namespace reprise::detail
