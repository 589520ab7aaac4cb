// Copies queries, keys and values out of their common product, rotating queries and keys on the
// way. Backward gathers their gradients in one product and rotates by -angle, which is the
// transpose of the rotation.

#include "ops/cuda/check.h"
#include "ops/cuda/rope.cuh"

namespace reprise::cuda {

namespace {

template <class T>
struct Head {
  T* row;  // this token's values in its part; null: past the last head
  bool is_rotated;
};

/// Heads are numbered through queries, keys and values, as in the product.
template <class T>
__device__ __forceinline__ Head<T> head_of(const Rope& job,
                                           int head,
                                           int64_t batch,
                                           int64_t position) {
  const auto row = [&](const Rope::Part& part, int of_part) {
    return static_cast<T*>(part.data) + batch * part.batch_stride + of_part * part.head_stride +
           position * part.token_stride;
  };
  const int queries = static_cast<int>(job.query.heads);
  const int rotated = queries + static_cast<int>(job.key.heads);
  if (head < queries) {
    return {row(job.query, head), true};
  }
  if (head < rotated) {
    return {row(job.key, head - queries), true};
  }
  const bool exists = head < rotated + static_cast<int>(job.value.heads);
  return {exists ? row(job.value, head - rotated) : nullptr, false};
}

/// Units of the rotated values come first, then those of the other values of a head.
template <class T, bool kInterleaved>
__device__ __forceinline__ Unit unit_of(const Rope& job, int j, int rotated_units) {
  const int dims = static_cast<int>(job.dims), head_dim = static_cast<int>(job.head_dim);
  if (j < rotated_units) {
    return rotated_unit<T, kInterleaved>(j, dims);
  }
  const int first = dims + 2 * (j - rotated_units) * kLanes<T>;
  return {first, head_dim, first + kLanes<T>, head_dim};
}

template <class T, bool kBackward, bool kAligned, bool kInterleaved>
__global__ void __launch_bounds__(kRopeThreads, kRopeBlocks)
    rope_kernel(const Rope job, int rotated_units, int units) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.z + threadIdx.z;
  if (token >= job.batch * job.length) {
    return;
  }
  const int64_t batch = token / job.length, position = token - batch * job.length;
  const int half = static_cast<int>(job.dims) / 2;
  const int64_t angle_row = (job.tables_per_batch ? token : position) * half;
  const int heads = static_cast<int>(job.query.heads + job.key.heads + job.value.heads);
  const int head_dim = static_cast<int>(job.head_dim);
  T* product = static_cast<T*>(job.product) + token * job.product_stride;
  const int step = static_cast<int>(blockDim.y);

  for (int j = static_cast<int>(threadIdx.x); j < units; j += static_cast<int>(blockDim.x)) {
    const auto unit = unit_of<T, kInterleaved>(job, j, rotated_units);
    Angles<T> angles{};
    if (j < rotated_units) {
      angles =
          load_angles<T, kAligned>(job.cos + angle_row, job.sin + angle_row, j * kLanes<T>, half);
    }
    if constexpr (kBackward) {
#pragma unroll
      for (int i = 0; i < kLanes<T>; ++i) {
        angles.sin.at[i] = -angles.sin.at[i];
      }
    }
    for (int head = static_cast<int>(threadIdx.y); head < heads; head += kRopeHeads * step) {
      Pack<T> first[kRopeHeads], second[kRopeHeads];
      Head<T> own[kRopeHeads];
#pragma unroll
      for (int k = 0; k < kRopeHeads; ++k) {
        own[k] = head_of<T>(job, head + k * step, batch, position);
        if (own[k].row != nullptr) {
          const T* from = kBackward ? own[k].row : product + (head + k * step) * head_dim;
          first[k] = load<kAligned, Cache::Stream>(from, unit.first, unit.first_end);
          second[k] = load<kAligned, Cache::Stream>(from, unit.second, unit.second_end);
        }
      }
#pragma unroll
      for (int k = 0; k < kRopeHeads; ++k) {
        if (own[k].row != nullptr) {
          if (own[k].is_rotated && j < rotated_units) {
            rotate<T, kInterleaved>(first[k], second[k], angles);
          }
          T* to = kBackward ? product + (head + k * step) * head_dim : own[k].row;
          store<kAligned>(to, unit.first, unit.first_end, first[k]);
          store<kAligned>(to, unit.second, unit.second_end, second[k]);
        }
      }
    }
  }
}

bool strides_divide(const Rope::Part& part, int64_t lanes) {
  return part.batch_stride % lanes == 0 && part.head_stride % lanes == 0 &&
         part.token_stride % lanes == 0;
}

bool is_aligned_by(const Rope& job, int64_t lanes) {
  const bool heads_divide = job.dims % (2 * lanes) == 0 && job.head_dim % (2 * lanes) == 0;
  return heads_divide && job.product_stride % lanes == 0 && strides_divide(job.query, lanes) &&
         strides_divide(job.key, lanes) && strides_divide(job.value, lanes) &&
         are_aligned({job.query.data, job.key.data, job.value.data, job.product, job.cos, job.sin});
}

}  // namespace

void launch(const Rope& job, cudaStream_t stream) {
  const int64_t tokens = job.batch * job.length;
  const int heads = narrow(job.query.heads + job.key.heads + job.value.heads);
  if (tokens == 0 || heads == 0 || job.head_dim == 0) {
    return;
  }
  narrow(heads * job.head_dim);
  const int64_t lanes = 16 / bytes_of(job.type);
  const int64_t rotated_units = (job.dims / 2 + lanes - 1) / lanes;
  const int64_t rest_units = (job.head_dim - job.dims + 2 * lanes - 1) / (2 * lanes);
  const int64_t units = rotated_units + rest_units;
  const auto tiles = rope_tiles(tokens, heads, units);
  with_type(job.type, [&](auto type) {
    with_flag(job.is_backward, [&](auto backward) {
      with_flag(is_aligned_by(job, lanes), [&](auto aligned) {
        with_flag(job.interleaved, [&](auto interleaved) {
          rope_kernel<typename decltype(type)::type,
                      decltype(backward)::value,
                      decltype(aligned)::value,
                      decltype(interleaved)::value><<<tiles.blocks, tiles.threads, 0, stream>>>(
              job, narrow(rotated_units), narrow(units));
        });
      });
    });
  });
  check_launch("rope");
}

}  // namespace reprise::cuda
