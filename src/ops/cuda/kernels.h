// The interface between operators and kernels: raw pointers and a CUDA stream. Without LibTorch's
// headers, so that nvcc compiles a file in seconds.
//
// Matrices are contiguous rows of `width` values. All sums are float32, in an order that depends
// only on sizes and the device, so a repeated launch gives the same bits. Pointers and strides need
// no alignment; where they are multiples of 16 bytes, access is vectorised.
#pragma once

#include <reprise/ops/activation.h>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprise::cuda {

enum class Type : uint8_t { BFloat16, Half, Float };

/// y = x * scale * (weight + weight_offset) with scale = 1 / sqrt(mean(x^2) + epsilon), rounded
/// once.
struct RmsNorm {
  Type type, weight_type;
  const void* x;
  const void* weight;
  void* y;
  float* scale;  // (rows)
  int64_t rows, width;
  float epsilon;
  float weight_offset;
};
void launch(const RmsNorm& job, cudaStream_t stream);

/// dx = gradient through the norm + grad_residual, the gradient of x past the norm; and dweight.
struct RmsNormBackward {
  Type type, weight_type;
  const void* grad;           // of y
  const void* grad_residual;  // null: none
  const void* x;
  const void* weight;
  const float* scale;
  void* dx;
  float* partials;  // (rms_norm_partials(), width); null: no dweight
  void* dweight;    // (width) of weight_type; null: none
  int64_t rows, width;
  float weight_offset;
};
int64_t rms_norm_partials(int64_t rows, int64_t width);
void launch(const RmsNormBackward& job, cudaStream_t stream);

/// y = activation(gate) * up; gate and up are the halves of each row of gate_up (rows, 2 width).
struct Gated {
  Type type;
  Activation activation;
  const void* gate_up;
  void* y;
  int64_t rows, width;
};
void launch(const Gated& job, cudaStream_t stream);

struct GatedBackward {
  Type type;
  Activation activation;
  const void* grad;  // of y
  const void* gate_up;
  void* dgate_up;
  void* y;  // recomputed y, for a weight's gradient; null: not wanted
  int64_t rows, width;
};
void launch(const GatedBackward& job, cudaStream_t stream);

/// Copies heads between the product that holds them all, (tokens, (heads + 2 kv_heads) * head_dim),
/// and separate queries, keys and values. On the way the first `dims` values of every query and key
/// are rotated; in backward, from the parts to the product, by the inverse rotation.
struct Rope {
  struct Part {  // (batch, heads, length, head_dim), values of a head adjacent; may be a view of
                 // the product
    void* data;
    int64_t heads, batch_stride, head_stride, token_stride;
  };
  Type type;
  bool is_backward;  // from the parts to the product; otherwise to the parts
  bool interleaved;  // pairs (0, 1), (2, 3), …; otherwise (0, dims / 2), (1, dims / 2 + 1), …
  Part query, key, value;  // a part without heads is not copied
  void* product;
  int64_t product_stride;  // values from one token to the next
  const float* cos;        // (batch or 1, length, dims / 2)
  const float* sin;
  int64_t batch, length, head_dim, dims;
  bool tables_per_batch;
};
void launch(const Rope& job, cudaStream_t stream);

/// out = in * factor, rounded to out's type; out may be in.
struct Scale {
  Type in_type, out_type;
  const void* in;
  void* out;
  const float* factor;  // on the device
  int64_t count;
};
bool can_launch(const Scale& job);  // both start on 16 bytes
void launch(const Scale& job, cudaStream_t stream);

/// out = x + added, rounded to the type of x.
struct AddRounded {
  Type type, added_type;
  const void* x;
  const void* added;
  void* out;
  int64_t count;
};
bool can_launch(const AddRounded& job);  // all start on 16 bytes
void launch(const AddRounded& job, cudaStream_t stream);

/// out = x where the seed keeps a value (ops/drop_bits.h), and zero elsewhere; or adds that to out.
struct Drop {
  Type in_type, out_type;
  const void* x;
  void* out;
  const int64_t* seed;  // on the device
  int64_t count;
  int64_t first;  // number of the first value
  uint32_t threshold;
  bool adds;
};
void launch(const Drop& job, cudaStream_t stream);

/// Fills a matrix from a quantised weight (quant/quantized_weight.h). Either scales or the three of
/// double quantisation are set.
struct Dequantize {
  Type type;     // of out
  bool is_int8;  // one scale for a row; otherwise 4-bit codes, one scale for a block
  const void* packed;
  const float* scales;
  const uint8_t* scale_codes;
  const float* nested_scales;
  const float* nested_map;  // (256)
  float offset;
  float numbers[16];  // what 4-bit codes stand for
  void* out;
  int64_t count, columns, block;
};
bool can_launch(const Dequantize& job);  // out starts on 16 bytes
void launch(const Dequantize& job, cudaStream_t stream);

/// Reads logits (rows, width) once from memory; p is the softmax of scale * logits. Unless
/// keep_logits, the logits are overwritten with their gradient
/// d(-w log p(target)) / d(scale * logits) = w (p - onehot), rounded to their type; w is 1, or
/// p(target) if weighted.
struct CrossEntropy {
  Type type;
  void* logits;
  const int64_t* targets;  // (rows), each in [0, width)
  float* losses;           // (rows): -w log p(target)
  float* log_sums;         // (rows): log sum exp(scale * logits); null: not wanted
  float* entropies;        // (rows); null: not wanted
  float* hits;             // (rows): 1 where the target is the first of the largest; null
  int64_t rows, width;
  float scale;  // positive
  bool weighted;
  bool keep_logits;
};
void launch(const CrossEntropy& job, cudaStream_t stream);

/// Overwrites logits (rows, width) with the gradient of scale * logits, given gradients a of
/// log p(target) and b of the entropy H: a (onehot - p) - b p (log p + H), rounded to their type.
struct TokenSlopes {
  Type type;
  void* logits;
  const int64_t* targets;
  const float* log_sums;        // (rows): log sum exp(scale * logits)
  const float* entropies;       // (rows); needed with grad_entropies
  const float* grad_logprobs;   // (rows); null: zero
  const float* grad_entropies;  // (rows); null: zero
  int64_t rows, width;
  float scale;
};
void launch(const TokenSlopes& job, cudaStream_t stream);

}  // namespace reprise::cuda
