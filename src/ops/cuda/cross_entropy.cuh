// How a block holds the row that cross entropy works on, and the two passes over it.
//
// Thread t owns packs t, t + threads, …: the first kSlots of them in shared memory, kHeld more in
// registers; only wider rows are partly read again, from the second-level cache. A slot is filled
// and read by its own thread only, so it needs no barrier, and is refilled with the next row as
// soon as the thread is done with it: memory is busy in both passes.
#pragma once

#include "ops/cuda/softmax_sums.cuh"
#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

inline constexpr int kPackBytes = 16;
inline constexpr int kSlots = 14;  // with 1024 threads they fill a Hopper block's shared memory
inline constexpr int kHeld = 2;    // 14 + 2 packs of 1024 threads: 131072 values of 16 bits
inline constexpr int kBatch = 4;   // packs in flight where a row is read again

/// A thread of a block and its slots in shared memory.
struct ThreadSlots {
  uint4* slots;  // the slots of all threads
  int thread, threads;
  int in_slots;  // packs of a row that are in slots

  __device__ __forceinline__ int held(int i) const { return in_slots + i * threads + thread; }
  // Index of a pack that is neither in slots nor in registers.
  __device__ __forceinline__ int left(int batch, int i) const {
    return in_slots + (kHeld + batch * kBatch + i) * threads + thread;
  }
};

template <class T>
__device__ __forceinline__ Pack<T> as_pack(const uint4& raw) {
  return {raw.x, raw.y, raw.z, raw.w};
}

__device__ __forceinline__ bool has(int start, int count, int at) {
  return static_cast<unsigned>(at - start) < static_cast<unsigned>(count);
}

/// A row split into packs on 16-byte boundaries, and the edge values before and after them. Each
/// edge value goes to one thread, so odd widths are as fast as others. The order of a row's sum
/// thus depends on where the row starts: on its index and the width, if the logits are aligned.
template <class T>
struct Row {
  T* values;
  int head, packs, edges;

  __device__ __forceinline__ Row(T* logits, int64_t row, int64_t rows, int width)
      : values(logits + row * width), head(0), packs(0), edges(0) {
    if (row < rows) {
      const auto past = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values)) % kPackBytes;
      head = min(width, static_cast<int>((kPackBytes - past) % kPackBytes / sizeof(T)));
      packs = (width - head) / kLanes<T>;
      edges = width - packs * kLanes<T>;
    }
  }
  __device__ __forceinline__ int start(int pack) const { return head + pack * kLanes<T>; }
  __device__ __forceinline__ uint4* address(int pack) const {
    return reinterpret_cast<uint4*>(values + head) + pack;
  }
  // Zero past the last pack.
  __device__ __forceinline__ Pack<T> load(int pack) const {
    return as_pack<T>(pack < packs ? __ldcg(address(pack)) : uint4{});
  }
};

/// What a thread holds of a row besides its slots.
template <class T>
struct Share {
  Row<T> row;
  Pack<T> held[kHeld];
  float edges[1];
  int edge;
  bool has_edge;
  int batches;  // batches of packs that have to be read again

  __device__ __forceinline__ Share(const Row<T>& of, const ThreadSlots& own, int width) : row(of) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      held[i] = row.load(own.held(i));
    }
    has_edge = own.thread < row.edges;
    edge = own.thread < row.head ? own.thread : width - row.edges + own.thread;
    edges[0] = has_edge ? static_cast<float>(row.values[edge]) : 0.0f;
    const int left = max(row.packs - own.in_slots - kHeld * own.threads, 0);
    batches = (left + kBatch * own.threads - 1) / (kBatch * own.threads);
  }
};

__device__ __forceinline__ void end_step() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Starts to fill slot i, as one asynchronous copy group.
template <class T>
__device__ __forceinline__ void fetch(const ThreadSlots& own, int i, const Row<T>& row) {
  if (i < min(row.packs, own.in_slots)) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(own.slots + i));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(row.address(i))
                 : "memory");
  }
  end_step();
}

// At step i of the first pass, kSlots - 1 copy groups follow the one that filled slot i: one for
// each slot after it, and one for each step of the pass so far.
__device__ __forceinline__ void wait_for_slot() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
}

/// The first pass over a thread's share of the row. With kRefill it is the only pass and refills
/// the slots.
template <bool kEntropy, bool kRefill>
struct Reading {
  int target;
  float target_logit, factor;
  SoftmaxSums sums = SoftmaxSums::empty();
  bool is_beaten = false;  // the target is not the first of the largest values

  template <class T>
  __device__ __forceinline__ void pass(const Share<T>& share,
                                       const ThreadSlots& own,
                                       const Row<T>& next) {
    const Row<T>& row = share.row;
#pragma unroll 1
    for (int i = own.thread; i < kSlots * own.threads; i += own.threads) {
      wait_for_slot();
      if (i < min(row.packs, own.in_slots)) {
        take(row, i, as_pack<T>(own.slots[i]));
      }
      if constexpr (kRefill) {
        fetch(own, i, next);
      } else {
        end_step();
      }
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      take(row, own.held(i), share.held[i]);
    }
#pragma unroll 1
    for (int batch = 0; batch < share.batches; ++batch) {
      Pack<T> packs[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        packs[i] = row.load(own.left(batch, i));
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        take(row, own.left(batch, i), packs[i]);
      }
    }
    if (share.has_edge) {
      take(share.edges, share.edge);
    }
  }

  template <class T>
  __device__ __forceinline__ void take(const Row<T>& row, int pack, const Pack<T>& logits) {
    if (pack < row.packs) {
      take(unpack(logits).at, row.start(pack));
    }
  }
  template <int kCount>
  __device__ __forceinline__ void take(const float (&values)[kCount], int start) {
    const float top = largest_of(values);
    sums.template add<kEntropy>(values, top, factor);
    if (!has(start, kCount, target)) {
      is_beaten |= !(start < target ? top < target_logit : top <= target_logit);
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float z = values[i];
      is_beaten |= !(start + i < target ? z < target_logit : z <= target_logit);
    }
  }
};

/// The second pass: overwrites the values with weight (p - onehot).
struct Writing {
  int target;
  float largest, factor, weight, weight_by_sum;

  template <class T>
  __device__ __forceinline__ void pass(Share<T>& share,
                                       const ThreadSlots& own,
                                       const Row<T>& next) const {
    const Row<T>& row = share.row;
    // First the packs that have to be read again, the last read first: those are still cached.
#pragma unroll 1
    for (int batch = share.batches - 1; batch >= 0; --batch) {
      Pack<T> packs[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        packs[i] = row.load(own.left(batch, i));
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        write(row, own.left(batch, i), packs[i]);
      }
    }
#pragma unroll 1
    for (int i = own.thread; i < kSlots * own.threads; i += own.threads) {
      if (i < min(row.packs, own.in_slots)) {
        write(row, i, as_pack<T>(own.slots[i]));
      }
      fetch(own, i, next);
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      write(row, own.held(i), share.held[i]);
    }
    if (share.has_edge) {
      apply(share.edges, share.edge);
      row.values[share.edge] = static_cast<T>(share.edges[0]);
    }
  }

  template <int kCount>
  __device__ __forceinline__ void apply(float (&values)[kCount], int start) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = power_of_2((values[i] - largest) * factor) * weight_by_sum;
    }
    if (has(start, kCount, target)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] -= start + i == target ? weight : 0.0f;
      }
    }
  }
  template <class T>
  __device__ __forceinline__ void write(const Row<T>& row, int at, const Pack<T>& logits) const {
    if (at < row.packs) {
      auto values = unpack(logits);
      apply(values.at, row.start(at));
      const auto [a, b, c, d] = pack(values).words;
      __stcs(row.address(at), uint4{a, b, c, d});
    }
  }
};

}  // namespace reprise::cuda
