// The activation functions that models use in their MLPs.
#pragma once

#include <cstdint>

namespace reprise {

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, SquaredRelu };

}  // namespace reprise
