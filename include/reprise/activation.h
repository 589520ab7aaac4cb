// Activation functions of feed-forward layers.
#pragma once

#include <cstdint>

namespace reprise {

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu };

}  // namespace reprise
