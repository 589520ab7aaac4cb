// Sharding a model over several processes: what each process stores, and what is communicated.
//
// | strategy | parameters | gradients | optimizer | communicated per micro-batch                  |
// |----------|------------|-----------|-----------|-----------------------------------------------|
// | ddp      | whole      | whole     | whole     | nothing; gradients in the last one of a step  |
// | zero2    | whole      | 1/N       | 1/N       | gradients; updated parameters after a step    |
// | fsdp     | 1/N        | 1/N       | 1/N       | parameters in forward and backward, gradients |
//
// Under fsdp the parameters of a unit (embeddings, a block, or the last norm and head) are gathered
// only while it runs, and those of the next unit are prefetched.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/model/sharded_parameters.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

enum class Parallel : uint8_t { Ddp, Zero2, Fsdp };

/// Parses "ddp", "zero2" or "fsdp". Throws for any other name.
REPRISE_API Parallel parallel_named(const std::string& name);
REPRISE_API const char* name_of(Parallel strategy);

struct ShardOptions {
  Parallel strategy = Parallel::Ddp;
  /// The dtype in which gradients are reduced. Unset: float32, or float64 for float64 models.
  std::optional<at::ScalarType> reduce_dtype = {};
  /// Keep the parts of parameters, gradients and optimizer state in host memory. Only for fsdp on a
  /// GPU.
  bool cpu_offload = false;
  /// Gather the parameters of the next unit while the current one computes.
  bool prefetch = true;
  /// Cut parameters only at multiples of this many elements: block_elements() of their optimizer.
  int64_t block_elements = 1;
  /// Device and dtype for a model with mapped parameters (LoadOptions::mapped).
  std::optional<at::Device> device = {};
  std::optional<at::ScalarType> dtype = {};
};

/// The communication of one model since it was sharded.
struct TrafficCounts {
  std::vector<int64_t> forward_gathers;   ///< by unit
  std::vector<int64_t> backward_gathers;  ///< by unit
  std::vector<int64_t> reductions;        ///< gradient reductions, by unit
  int64_t bytes_gathered = 0;             ///< received by this process
  int64_t bytes_reduced = 0;              ///< input of this process to reductions
};

/// The sharded parameters of a model, as a training loop uses them.
class REPRISE_API ShardedModel : public ShardedParameters {
 public:
  virtual Parallel strategy() const = 0;
  /// What the optimizer of this process updates: its parts of the trained parameters (under ddp the
  /// parameters themselves), with the names of trained_parameters(). Their gradients are complete
  /// after end_backward(). Parameters of which this process has no element are left out.
  virtual std::vector<TensorPart> trained() const = 0;
  /// Whether trained() are parts. Then norms and the like must be summed over processes.
  virtual bool is_sharded() const = 0;

  /// Call before the forward of a micro-batch. `is_last`: it is the last one of the optimizer step.
  virtual void begin_micro_batch(bool is_last) = 0;
  /// Call after its backward. Finishes all reductions of gradients.
  virtual void end_backward() = 0;
  /// Call after the optimizer's step on trained().
  virtual void after_update() = 0;

  /// Between the two, passes leave nothing behind: gradients, and what is known about them, are as
  /// before, and what was gathered is freed.
  virtual void begin_rehearsal() = 0;
  virtual void end_rehearsal() = 0;
  /// The most bytes of gradients on this process's device between two micro-batches, and before
  /// the update.
  virtual int64_t gradient_bytes() const = 0;

  virtual const TrafficCounts& traffic() const = 0;
};

/// Shards a model over a world. Add adapters first: they are sharded too. The model holds a
/// reference to the result. Checkpointing may be enabled before or after. The world must outlive
/// the model.
REPRISE_API std::shared_ptr<ShardedModel> shard(Model& model,
                                                const World& world,
                                                const ShardOptions& options);

/// The result of shard() for this model; null if it is not sharded.
REPRISE_API ShardedModel* sharded_model_of(const Model& model);

}  // namespace reprise
