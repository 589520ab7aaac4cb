// A training step that is recorded once as a CUDA graph and then replayed: one launch instead of
// hundreds. It pays off for steps of short kernels. Results are those of the step itself, to the
// last bit if its kernels are deterministic.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace reprise {

struct StepGraphOptions {
  /// Runs of the step before it is recorded, at least 1: libraries then load kernels, choose
  /// algorithms and allocate workspaces. These runs draw random numbers as usual.
  int64_t warmup = 3;
};

/// A replay reads and writes the memory that the recording used: inputs are tensors of the caller,
/// who fills them with copy_(); sizes, memory policy and all decisions of the host stay as
/// recorded. The graph owns a memory pool for as long as it lives.
///
/// The step must not synchronise with the GPU. These do: .item(), .cpu(), nonzero, copies from
/// pageable memory, DeterminismCheck::Values, and checkpointed regions that preserve random state.
/// So use preserve_rng_state = false for regions (which may then draw no random numbers), known
/// targets for heads (loss/targets.h), and no attention mask that the model would have to read.
/// Random operators outside of regions draw new numbers in every replay.
///
/// While a step is recorded, no other thread may synchronise with a GPU: CUDA reports an error.
///
///   reprise::ModelInput input;
///   input.input_ids = first.input_ids.clone();  // on the GPU
///   auto targets = first_targets.clone();       // as many counted targets in every batch
///   auto graph = reprise::StepGraph::record(
///       [&] {
///         const auto hidden = model->hidden_states(input);
///         const auto values =
///             reprise::linear_cross_entropy(hidden, model->linear_head(), {targets, known});
///         const auto loss = values.sum / static_cast<double>(values.tokens);
///         loss.backward();
///         return loss.detach();
///       },
///       model->parameters());
///   for (const auto& batch : batches) {
///     input.input_ids.copy_(batch.input_ids);
///     targets.copy_(batch.targets);
///     const auto loss = graph.replay();
///     optimizer.step();
///     optimizer.zero_grad();
///   }
class REPRISE_API StepGraph {
 public:
  /// Runs `step` options.warmup times and then records it, on a stream of its own. The step must
  /// run forward and backward and return the loss, a scalar on the parameters' device. The
  /// parameters' gradients are dropped; recording computes none. Synchronises with the device.
  /// Throws without a GPU or libreprise_cuda, if the parameters are not on one CUDA device, or if
  /// the step does something that cannot be recorded. No autograd graph of an earlier step over
  /// these parameters may be alive (an undetached loss): it would tie them to another stream.
  static StepGraph record(const std::function<at::Tensor()>& step,
                          std::vector<at::Tensor> parameters,
                          const StepGraphOptions& options = {});

  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;
  ~StepGraph();

  /// Runs the recorded work on the current stream, asynchronously, and sets the parameters'
  /// gradients. Gradients and the returned loss are tensors of the graph that the next replay
  /// overwrites, so clone what you want to keep. Gradients are written, never accumulated: throws
  /// if a parameter has another gradient, which would be lost.
  at::Tensor replay();

 private:
  struct State;
  explicit StepGraph(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace reprise
