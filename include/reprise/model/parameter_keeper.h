// Where a model's parameters are while nobody computes with them.
//
// A model that is spread over processes (parallel/spread.h) has its parameters only while they are
// needed. It tells its keeper when a unit (the embeddings, a block, the top) is about to compute
// and when it has; the keeper marks both places in the autograd graph, so that backward tells it
// too. Both marks are outside of checkpointed regions: computing a block again and its backward
// happen between them, with one gather for both.
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

class REPRISE_API ParameterKeeper {
 public:
  virtual ~ParameterKeeper();

  /// Units are numbered in the order they compute in: embeddings 0, blocks 1 to L, the top (last
  /// norm and head) L + 1. `x` is what flows through the unit; what is returned flows on.
  virtual at::Tensor enter(size_t unit, at::Tensor x) = 0;
  virtual at::Tensor leave(size_t unit, at::Tensor y) = 0;

  virtual const World& world() const = 0;
  /// What this process keeps of a parameter of the model. Nothing: values are empty.
  virtual TensorPart part_of(const std::string& name, const at::Tensor& parameter) const = 0;
  /// After the parts were written to: the other processes' computations see it.
  virtual void refresh() = 0;

  /// After passes without backward: what no backward waits for is freed.
  virtual void settle() = 0;

  /// Bytes that the parameters take here between passes.
  virtual int64_t bytes() const = 0;

  /// All parameters are here until release(), and passes need nobody else in between: each process
  /// may make as many as it likes. hold() is a collective.
  virtual void hold() = 0;
  virtual void release() = 0;
};

/// hold() and release() of a model, if it has a keeper.
class REPRISE_API HeldParameters {
 public:
  explicit HeldParameters(const Model& model);
  ~HeldParameters();
  HeldParameters(const HeldParameters&) = delete;
  HeldParameters& operator=(const HeldParameters&) = delete;

 private:
  ParameterKeeper* keeper_;  // null: none
};

}  // namespace reprise
