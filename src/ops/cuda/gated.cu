// The gated activation and its gradient. Each thread reads all of its packs before it writes, and
// writes only where it has read: dgate_up may be the memory of gate_up, and y that of grad.

#include <algorithm>

#include "ops/cuda/activations.cuh"
#include "ops/cuda/check.h"
#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 5;         // per multiprocessor: leaves registers for what is read ahead
constexpr int kForwardPacks = 2;   // per thread, of gate and up each
constexpr int kBackwardPacks = 1;  // of three inputs each: more would cost occupancy

/// How blocks cover the matrix: threadIdx.y counts rows, threadIdx.x packs. The grid is
/// one-dimensional, since only its x dimension has no small limit.
struct Tiles {
  dim3 threads;
  int blocks;
  uint32_t per_row;
};

Tiles tiles_of(int64_t rows, int64_t width, int64_t lanes, int64_t packs_each) {
  const int64_t needed = (width + lanes * packs_each - 1) / (lanes * packs_each);
  int64_t across = 1;
  while (across < std::min<int64_t>(needed, kThreads)) {
    across *= 2;
  }
  const int64_t down = kThreads / across;
  const int64_t per_row = (needed + across - 1) / across;
  return {dim3(narrow(across), narrow(down)),
          narrow((rows + down - 1) / down * per_row),
          static_cast<uint32_t>(per_row)};
}

/// This thread's row and the first value of its first pack; its packs are `step` values apart.
struct Position {
  int64_t row;
  int first, step;
};

template <class T, int kPacks>
__device__ __forceinline__ Position position_of(uint32_t per_row) {
  const uint32_t tile = blockIdx.x / per_row;
  const uint32_t across = (blockIdx.x - tile * per_row) * blockDim.x * kPacks + threadIdx.x;
  return {static_cast<int64_t>(tile) * blockDim.y + threadIdx.y,
          static_cast<int>(across) * kLanes<T>,
          static_cast<int>(blockDim.x) * kLanes<T>};
}

template <class T, bool kAligned, Activation kActivation>
__global__ void __launch_bounds__(kThreads, kBlocks)
    gated_kernel(const Gated job, uint32_t per_row) {
  const auto position = position_of<T, kForwardPacks>(per_row);
  if (position.row >= job.rows) {
    return;
  }
  const int width = static_cast<int>(job.width);
  const T* gates = static_cast<const T*>(job.gate_up) + position.row * 2 * job.width;
  Pack<T> gate[kForwardPacks], up[kForwardPacks];
#pragma unroll
  for (int k = 0; k < kForwardPacks; ++k) {
    gate[k] = load<kAligned, Cache::Stream>(gates, position.first + k * position.step, width);
    up[k] = load<kAligned, Cache::Stream>(gates + width, position.first + k * position.step, width);
  }
#pragma unroll
  for (int k = 0; k < kForwardPacks; ++k) {
    const auto g = unpack(gate[k]);
    auto y = unpack(up[k]);
#pragma unroll
    for (int i = 0; i < kLanes<T>; ++i) {
      y.at[i] *= activate<kActivation, sizeof(T) == 2>(g.at[i]).value;
    }
    store<kAligned>(static_cast<T*>(job.y) + position.row * job.width,
                    position.first + k * position.step,
                    width,
                    pack<T>(y));
  }
}

template <class T, bool kAligned, Activation kActivation>
__global__ void __launch_bounds__(kThreads, kBlocks)
    gated_backward_kernel(const GatedBackward job, uint32_t per_row) {
  const auto position = position_of<T, kBackwardPacks>(per_row);
  if (position.row >= job.rows) {
    return;
  }
  const int width = static_cast<int>(job.width), at = position.first;
  const int64_t offset = position.row * job.width;
  const T* gates = static_cast<const T*>(job.gate_up) + 2 * offset;
  const T* grads = static_cast<const T*>(job.grad) + offset;
  const auto packed_gate = load<kAligned, Cache::Stream>(gates, at, width);
  const auto packed_up = load<kAligned, Cache::Stream>(gates + width, at, width);
  const auto packed_grad = load<kAligned, Cache::Stream>(grads, at, width);

  const auto gate = unpack(packed_gate), up = unpack(packed_up), grad = unpack(packed_grad);
  Floats<T> dgate, dup, y;
#pragma unroll
  for (int i = 0; i < kLanes<T>; ++i) {
    const auto activated = activate<kActivation, sizeof(T) == 2>(gate.at[i]);
    dgate.at[i] = grad.at[i] * up.at[i] * activated.slope;
    dup.at[i] = grad.at[i] * activated.value;
    y.at[i] = up.at[i] * activated.value;
  }
  T* dgates = static_cast<T*>(job.dgate_up) + 2 * offset;
  store<kAligned>(dgates, at, width, pack<T>(dgate));
  store<kAligned>(dgates + width, at, width, pack<T>(dup));
  if (job.y != nullptr) {
    store<kAligned>(static_cast<T*>(job.y) + offset, at, width, pack<T>(y));
  }
}

/// Calls f(std::integral_constant<Activation, …>{}).
template <class F>
void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::Silu:
      return f(std::integral_constant<Activation, Activation::Silu>{});
    case Activation::Gelu:
      return f(std::integral_constant<Activation, Activation::Gelu>{});
    case Activation::GeluTanh:
      return f(std::integral_constant<Activation, Activation::GeluTanh>{});
    case Activation::Relu:
      return f(std::integral_constant<Activation, Activation::Relu>{});
    case Activation::SquaredRelu:
      return f(std::integral_constant<Activation, Activation::SquaredRelu>{});
  }
}

/// Calls f with value type, alignment and activation as template arguments.
template <class Job, class F>
void with_variant(const Job& job, bool starts_aligned, F&& f) {
  const bool is_aligned = starts_aligned && narrow(job.width) * bytes_of(job.type) % 16 == 0;
  with_type(job.type, [&](auto type) {
    with_flag(is_aligned, [&](auto aligned) {
      with_activation(job.activation, [&](auto activation) { f(type, aligned, activation); });
    });
  });
}

}  // namespace

void launch(const Gated& job, cudaStream_t stream) {
  if (job.rows == 0 || job.width == 0) {
    return;
  }
  with_variant(
      job, are_aligned({job.gate_up, job.y}), [&](auto type, auto aligned, auto activation) {
        using T = typename decltype(type)::type;
        const auto tiles = tiles_of(job.rows, job.width, kLanes<T>, kForwardPacks);
        gated_kernel<T, decltype(aligned)::value, decltype(activation)::value>
            <<<tiles.blocks, tiles.threads, 0, stream>>>(job, tiles.per_row);
      });
  check_launch("gated");
}

void launch(const GatedBackward& job, cudaStream_t stream) {
  if (job.rows == 0 || job.width == 0) {
    return;
  }
  with_variant(job,
               are_aligned({job.grad, job.gate_up, job.dgate_up, job.y}),
               [&](auto type, auto aligned, auto activation) {
                 using T = typename decltype(type)::type;
                 const auto tiles = tiles_of(job.rows, job.width, kLanes<T>, kBackwardPacks);
                 gated_backward_kernel<T, decltype(aligned)::value, decltype(activation)::value>
                     <<<tiles.blocks, tiles.threads, 0, stream>>>(job, tiles.per_row);
               });
  check_launch("gated_backward");
}

}  // namespace reprise::cuda
