// Activation functions and their derivatives in float32. Silu and the tanh form of gelu are both
// g * sigmoid(z(g)): 1 + tanh(u) = 2 sigmoid(2 u), which stays accurate where tanh is close to -1.
#pragma once

#include "ops/cuda/kernels.h"

namespace reprise::cuda {

struct Activated {
  float value, slope;
};

/// kFast: for results that are rounded to 16 bits, where the last digits of exp do not matter.
template <bool kFast>
__device__ __forceinline__ float sigmoid(float z) {
  if constexpr (kFast) {
    return __fdividef(1.0f, 1.0f + __expf(-z));
  } else {
    return 1.0f / (1.0f + expf(-z));
  }
}

template <Activation kActivation, bool kFast>
__device__ __forceinline__ Activated activate(float g) {
  if constexpr (kActivation == Activation::Relu) {
    return {g < 0.0f ? 0.0f : g, g <= 0.0f ? 0.0f : 1.0f};  // NaN stays NaN
  } else if constexpr (kActivation == Activation::SquaredRelu) {
    const float r = g < 0.0f ? 0.0f : g;
    return {r * r, 2.0f * r};
  } else if constexpr (kActivation == Activation::Gelu) {
    constexpr float kSqrtHalf = 0.70710678118654752440f;
    constexpr float kDensity = 0.39894228040143267794f;  // 1 / sqrt(2 pi)
    const float below = 0.5f * (1.0f + erff(g * kSqrtHalf));
    const float exponent = -0.5f * g * g;
    const float density = kDensity * (kFast ? __expf(exponent) : expf(exponent));
    return {g * below, below + g * density};
  } else if constexpr (kActivation == Activation::GeluTanh) {
    constexpr float kLinear = 1.59576912160573071176f;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715f;
    const float square = g * g;
    const float s = sigmoid<kFast>(kLinear * g * (1.0f + kCubic * square));
    const float slope = kLinear * (1.0f + 3.0f * kCubic * square);
    return {g * s, s + g * s * (1.0f - s) * slope};
  } else {
    const float s = sigmoid<kFast>(g);
    return {g * s, s * (1.0f + g * (1.0f - s))};
  }
}

}  // namespace reprise::cuda
