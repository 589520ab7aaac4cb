// What a memory plan decides, as plain values that can be saved and loaded.
#pragma once

#include <reprise/policy.h>

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// What happens to the result of one operator call. Results without a decision are recomputed.
struct OpDecision {
  std::string name;           ///< "aten::mm"
  std::string overload = {};  ///< empty for the default overload
  size_t call_index = 0;      ///< see Note [Numbering of operator calls]
  Decision decision = Decision::Keep;

  bool operator==(const OpDecision&) const = default;
};

/// Element type and sizes of a tensor. Undefined tensors have the type Undefined, nested tensors no
/// sizes.
struct TensorShape {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes = {};

  bool operator==(const TensorShape&) const = default;
};

/// What a region was called with, and what it did, when its step was planned. A step whose region
/// differs is not the planned one.
struct RegionSignature {
  std::vector<TensorShape> inputs;      ///< the tensors among its arguments, in order
  std::vector<TensorShape> saved = {};  ///< what autograd saved inside it, in order
  size_t saves = 0;                     ///< as `saved`, with the numbers that operators were given
  size_t ops = 0;                       ///< operator calls, without autocast's casts

  bool operator==(const RegionSignature&) const = default;
};

/// What one outermost region of a step does, alone or joined with the regions after it. Joined
/// regions run inside one outer region that holds only the inputs of the first; inside it, each is
/// plain or recomputes everything. Only code that runs regions as a chain, like a Model, can join
/// them.
struct RegionDecision {
  std::string name;             ///< CheckpointOptions::name of the region
  bool is_plain = false;        ///< run without checkpointing; then nothing else is decided
  bool offload_inputs = false;  ///< the inputs wait in host memory
  size_t joined = 0;            ///< number of regions after it that are joined with it
  bool allow_lossy = false;     ///< Decision::Compress may change values, and so gradients
  std::vector<OpDecision> ops = {};
  /// Compared with the region whenever the decision is applied; std::nullopt: nothing is compared.
  std::optional<RegionSignature> signature = {};

  bool operator==(const RegionDecision&) const = default;
};

}  // namespace reprise
