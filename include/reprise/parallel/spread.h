// A model over several processes: what each keeps of it, and when they talk.
//
// | strategy | parameters | gradients | optimizer | a micro-batch sends                          |
// |----------|------------|-----------|-----------|----------------------------------------------|
// | ddp      | whole      | whole     | whole     | nothing; the last of a step its gradients    |
// | zero2    | whole      | 1/N       | 1/N       | gradients; a step the updated parameters     |
// | fsdp     | 1/N        | 1/N       | 1/N       | parameters twice (forward, backward), grads. |
//
// Under fsdp a unit's parameters are there while it computes; the next unit's are on their way.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/model/parameter_keeper.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

enum class Parallel : uint8_t { Ddp, Zero2, Fsdp };

REPRISE_API Parallel parallel_named(const std::string& name);
REPRISE_API const char* name_of(Parallel strategy);

struct SpreadOptions {
  Parallel strategy = Parallel::Ddp;
  /// In which type gradients are summed over processes; unset: float32, or float64 for such models.
  std::optional<at::ScalarType> reduce_dtype = {};
  /// Parts of parameters, gradients and optimizer state are in main memory. Fsdp on a GPU only.
  bool cpu_offload = false;
  /// The next unit's parameters are gathered while this one computes. False: one unit at a time.
  bool prefetch = true;
  /// The device and type that a model with mapped parameters (LoadOptions::mapped) gets.
  std::optional<at::Device> device = {};
  std::optional<at::ScalarType> dtype = {};
};

/// How often processes talked, for one model, since it was spread.
struct TrafficCounts {
  std::vector<int64_t> forward_gathers;   ///< by unit
  std::vector<int64_t> backward_gathers;  ///< by unit
  std::vector<int64_t> reductions;        ///< by unit: of gradients
  int64_t bytes_gathered = 0;             ///< into this process
  int64_t bytes_reduced = 0;              ///< handed in by this process
};

/// The keeper of a spread model.
class REPRISE_API SpreadModel : public ParameterKeeper {
 public:
  virtual Parallel strategy() const = 0;
  /// What an optimizer of this process works on: its parts of the trained parameters (under ddp the
  /// parameters themselves), by the names of trained_parameters(), with gradients after
  /// end_backward(). Those of which it has nothing are left out.
  virtual std::vector<TensorPart> trained() const = 0;
  /// Whether trained() are parts: then figures such as a norm must be summed over processes.
  virtual bool is_sharded() const = 0;

  /// Before the forward of a micro-batch; `is_last` of its optimizer step.
  virtual void begin_micro_batch(bool is_last) = 0;
  /// After its backward: gradients of this process's parts are complete, nothing is under way.
  virtual void end_backward() = 0;
  /// After an optimizer's step on trained().
  virtual void after_update() = 0;

  virtual const TrafficCounts& traffic() const = 0;
};

/// Spreads a model over a world, adapters included: add them first. The model keeps what is
/// returned. Checkpointing may be switched on before or after. The world must outlive the model.
REPRISE_API std::shared_ptr<SpreadModel> spread(Model& model,
                                                const World& world,
                                                const SpreadOptions& options);

/// Null: the model is whole in this process and its gradients are its own.
REPRISE_API SpreadModel* spread_of(const Model& model);

}  // namespace reprise
