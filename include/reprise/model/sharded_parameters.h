// The interface between a model and its parameters when they are sharded over processes.
//
// A sharded model (parallel/shard.h) has whole parameters only while it computes with them. It
// calls enter() before and leave() after each unit (the embeddings, a block, the top). Both also
// add a node to the autograd graph, so that backward gathers and frees the parameters too. The
// nodes are outside of checkpointed regions: the recompute of a block and its backward happen
// between them, so both share one gather.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise {

class Model;

/// Implemented by ShardedModel (parallel/shard.h).
class REPRISE_API ShardedParameters {
 public:
  virtual ~ShardedParameters();

  /// Units are numbered in the order of computation: embeddings 0, blocks 1 to L, the top (last
  /// norm and head) L + 1. `x` and `y` are the unit's input and output; the model continues with
  /// the returned tensor.
  virtual at::Tensor enter(size_t unit, at::Tensor x) = 0;
  virtual at::Tensor leave(size_t unit, at::Tensor y) = 0;

  virtual const World& world() const = 0;
  /// The part of a parameter that this process has; empty values if it has none.
  virtual TensorPart part_of(const std::string& name, const at::Tensor& parameter) const = 0;
  /// Call it after writing to the parts, so that later passes of all processes use the new values.
  virtual void refresh() = 0;

  /// Call it after passes without backward: frees gathered parameters that no backward needs.
  virtual void settle() = 0;

  /// Bytes that the parameters take in this process between passes.
  virtual int64_t bytes() const = 0;

  /// Gathers all parameters until reshard(). In between, passes need no other process, so each
  /// process may run any number of them. unshard() is a collective.
  virtual void unshard() = 0;
  virtual void reshard() = 0;
};

/// A scope in which all parameters of a model are gathered; does nothing if it is not sharded.
class REPRISE_API UnshardedParameters {
 public:
  explicit UnshardedParameters(const Model& model);
  ~UnshardedParameters();
  UnshardedParameters(const UnshardedParameters&) = delete;
  UnshardedParameters& operator=(const UnshardedParameters&) = delete;

 private:
  ShardedParameters* sharded_parameters_;  // null: none
};

}  // namespace reprise
