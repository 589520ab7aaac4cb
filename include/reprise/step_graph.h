// A training step that is recorded once, as a CUDA graph, and then replayed: the host hands the GPU
// one thing instead of hundreds of kernels. What pays is a step whose kernels are short; results
// are those of the step itself, to the last bit where its kernels repeat.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace reprise {

struct StepGraphOptions {
  /// Runs of the step before it is recorded, at least 1: libraries load kernels, choose algorithms
  /// and allocate what they keep. They draw random numbers as any run does.
  int64_t warmup = 3;
};

/// Everything that a replay reads and writes lies where it lay during the recording: inputs are the
/// caller's own tensors, which it fills with copy_; sizes, memory policy and all that the host
/// decided stay as they were. The graph has a memory pool of its own, held for as long as it lives.
///
/// The step must not wait for the GPU. .item(), .cpu(), nonzero, copies from pageable memory,
/// DeterminismCheck::Values and regions that preserve random numbers do: give checkpointed regions
/// preserve_rng_state = false (they may then draw no random numbers), heads known targets
/// (loss/targets.h) and models no attention mask whose values they would have to ask for. Random
/// operators outside of regions draw new numbers in every replay.
///
/// While a step is recorded no other thread may wait for a GPU: CUDA would refuse that.
///
///   reprise::ModelInput input;
///   input.input_ids = first.input_ids.clone();  // on the GPU, as are
///   auto targets = first_targets.clone();       // these, of which as many count in every batch
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
  /// Runs `step` options.warmup times and then records it, on a stream of its own. It must run
  /// forward and backward and return the loss, a scalar on the parameters' device. Gradients of the
  /// parameters are dropped; recording computes none. Waits for the device.
  /// Throws where there is no GPU or no libreprise_cuda, if the parameters are not on one CUDA
  /// device, or if the step does what cannot be recorded. No graph of an earlier step over these
  /// parameters may be alive (an undetached loss): it ties them to another stream.
  static StepGraph record(const std::function<at::Tensor()>& step,
                          std::vector<at::Tensor> parameters,
                          const StepGraphOptions& options = {});

  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;
  ~StepGraph();

  /// Runs the recorded work on the current stream, asynchronously, and sets the parameters'
  /// gradients. Both they and the loss that is returned are the graph's own tensors: the next
  /// replay writes them again, so clone what is to be kept. Gradients are written, never added to;
  /// throws if a parameter has another gradient, which would be lost.
  at::Tensor replay();

 private:
  struct State;
  explicit StepGraph(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace reprise
