// The gradient of RMSNorm. As many blocks as the device holds at once loop over the rows; each
// thread keeps the weights of its columns and their gradient in registers, and loads the next row
// while this one is summed. Each block writes one row of partial sums, which a second kernel adds:
// without atomics, so that dweight is the same to the last bit in every run.

#include "ops/cuda/check.h"
#include "ops/cuda/rms_norm.cuh"
#include "ops/kernel_facts.h"

namespace reprise::cuda {

namespace {

constexpr int kThreads = 1024;   // most threads of a block
constexpr int kBlockRows = 256;  // threads of a block that holds several rows
constexpr int kLooped = 512;     // threads of a block whose rows are wider than its registers

template <class T>
struct Row {
  Pack<T> grad, x;
  float scale;
};

template <class T, bool kAligned>
__device__ __forceinline__ Row<T> load_row(const RmsNormBackward& job, int64_t row, int at) {
  const bool exists = row < job.rows;
  const int width = exists ? static_cast<int>(job.width) : 0;
  return {
      load<kAligned, Cache::Stream>(static_cast<const T*>(job.grad) + row * job.width, at, width),
      load<kAligned, Cache::Stream>(static_cast<const T*>(job.x) + row * job.width, at, width),
      exists ? job.scale[row] : 0.0f};
}

/// Adds up the weight's gradient of this thread's columns over the groups of the block, in order.
template <class T>
__device__ __forceinline__ void store_partials(const RmsNormBackward& job,
                                               const Floats<T>& dweight) {
  extern __shared__ float columns[];  // (groups, group * lanes)
  const int group = static_cast<int>(blockDim.x), groups = static_cast<int>(blockDim.y);
  const int row = group * kLanes<T>;
  const int thread = static_cast<int>(threadIdx.y) * group + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kLanes<T>; ++i) {
    columns[thread * kLanes<T> + i] = dweight.at[i];
  }
  __syncthreads();
  float* partials = job.partials + blockIdx.x * job.width;
  for (int column = thread; column < job.width; column += group * groups) {
    float sum = 0;
    for (int y = 0; y < groups; ++y) {
      sum += columns[y * row + column];
    }
    partials[column] = sum;
  }
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) rms_norm_backward(const RmsNormBackward job) {
  __shared__ GroupSum sum;
  const int at = static_cast<int>(threadIdx.x) * kLanes<T>;
  const int width = static_cast<int>(job.width);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const auto weight = load_factors<T, kAligned>(job, at, width);
  Floats<T> dweight{};

  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  Row<T> next = load_row<T, kAligned>(job, row, at);
  for (int turn = 0; row - threadIdx.y < job.rows; row += step, ++turn) {
    const int row_width = row < job.rows ? width : 0;
    const int64_t offset = row * job.width;
    const float scale = next.scale;
    const auto grad = unpack(next.grad), x = unpack(next.x);
    Pack<T> passing{};
    if (job.grad_residual != nullptr) {
      passing = load<kAligned, Cache::Stream>(
          static_cast<const T*>(job.grad_residual) + offset, at, row_width);
    }
    next = load_row<T, kAligned>(job, row + step, at);

    float dot = 0;
#pragma unroll
    for (int i = 0; i < kLanes<T>; ++i) {
      const float normed = x.at[i] * scale;
      dot += grad.at[i] * weight.at[i] * normed;
      dweight.at[i] += grad.at[i] * normed;
    }
    const float mean = sum(dot, turn) * inverse_width;
    auto dx = unpack(passing);
#pragma unroll
    for (int i = 0; i < kLanes<T>; ++i) {
      dx.at[i] += scale * (grad.at[i] * weight.at[i] - x.at[i] * scale * mean);
    }
    store<kAligned>(static_cast<T*>(job.dx) + offset, at, row_width, pack<T>(dx));
  }
  if (job.partials != nullptr) {
    store_partials<T>(job, dweight);
  }
}

/// For wide rows: a block keeps its partial sums in global memory, and a column always belongs to
/// the same thread.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kLooped) rms_norm_backward_looped(const RmsNormBackward job) {
  __shared__ GroupSum sum;
  const int width = static_cast<int>(job.width);
  const int first = static_cast<int>(threadIdx.x) * kLanes<T>;
  constexpr int kStep = kLooped * kLanes<T>;
  float* partials = job.partials + blockIdx.x * job.width;

  int turn = 0;
  for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x, ++turn) {
    const T* grad_row = static_cast<const T*>(job.grad) + row * job.width;
    const T* x_row = static_cast<const T*>(job.x) + row * job.width;
    const float scale = job.scale[row];
    float dot = 0;
    for (int at = first; at < width; at += kStep) {
      const auto grad = unpack(load<kAligned>(grad_row, at, width));
      const auto x = unpack(load<kAligned>(x_row, at, width));
      const auto weight = load_factors<T, kAligned>(job, at, width);
#pragma unroll
      for (int i = 0; i < kLanes<T>; ++i) {
        dot += grad.at[i] * weight.at[i] * (x.at[i] * scale);
      }
    }
    const float mean = sum(dot, turn) / static_cast<float>(width);
    for (int at = first; at < width; at += kStep) {
      const auto grad = unpack(load<kAligned, Cache::Stream>(grad_row, at, width));
      const auto x = unpack(load<kAligned, Cache::Stream>(x_row, at, width));
      const auto weight = load_factors<T, kAligned>(job, at, width);
      Floats<T> dx{};
      if (job.grad_residual != nullptr) {
        const T* passing = static_cast<const T*>(job.grad_residual) + row * job.width;
        dx = unpack(load<kAligned, Cache::Stream>(passing, at, width));
      }
#pragma unroll
      for (int i = 0; i < kLanes<T>; ++i) {
        const float normed = x.at[i] * scale;
        dx.at[i] += scale * (grad.at[i] * weight.at[i] - normed * mean);
        if (job.partials != nullptr && at + i < width) {
          partials[at + i] = (turn == 0 ? 0.0f : partials[at + i]) + grad.at[i] * normed;
        }
      }
      store<kAligned>(static_cast<T*>(job.dx) + row * job.width, at, width, pack<T>(dx));
    }
  }
}

template <class T, bool kAligned>
void launch_rows(const RmsNormBackward& job, int blocks, cudaStream_t stream) {
  const int64_t group = group_of(divide_up(job.width, kLanes<T>), 1);
  if (group > kThreads) {
    rms_norm_backward_looped<T, kAligned><<<blocks, kLooped, 0, stream>>>(job);
    return;
  }
  const int64_t groups = std::max<int64_t>(1, kBlockRows / group);
  const dim3 threads(narrow(group), narrow(groups));
  const size_t bytes = job.partials == nullptr ? 0 : 4 * group * groups * kLanes<T>;
  rms_norm_backward<T, kAligned><<<blocks, threads, bytes, stream>>>(job);
}

}  // namespace

int64_t rms_norm_partials(int64_t rows, int64_t width) {
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "rms_norm_partials");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "rms_norm_partials");
  return ops::rms_norm_partial_rows(rows, width, processors);
}

void launch(const RmsNormBackward& job, cudaStream_t stream) {
  if (job.rows == 0 || job.width == 0) {
    return;
  }
  const int64_t bytes = bytes_of(job.type);
  const bool is_aligned = are_aligned({job.grad, job.grad_residual, job.x, job.weight, job.dx}) &&
                          job.width * bytes % 16 == 0;
  const int blocks = narrow(rms_norm_partials(job.rows, job.width));
  narrow(job.width);
  with_type(job.type, [&](auto type) {
    with_flag(is_aligned, [&](auto aligned) {
      launch_rows<typename decltype(type)::type, decltype(aligned)::value>(job, blocks, stream);
    });
  });
  check_launch("rms_norm_backward");
  if (job.partials != nullptr && job.dweight != nullptr) {
    add_partials(job, blocks, stream);
  }
}

}  // namespace reprise::cuda
