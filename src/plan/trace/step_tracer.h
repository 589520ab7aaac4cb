// Watches one step as it runs and writes its trace: Note [A step in intervals].
//
// It hears of operators (inside and outside of regions), in-place writes, regions, and the nodes of
// backward, of the thread that runs it; what other threads do meanwhile it does not hear, and does
// not count. Some calls come from threads of the autograd engine, so each takes the lock.
// What is heard goes to StepCuts (where the step is, and its bytes), OpRecorder (operators),
// StorageRecorder (the life of storages) and a RegionRecord per region; TraceSummary computes the
// rest.
#pragma once

#include "checkpoint/ops/op_observer.h"
#include "checkpoint/region_listener.h"
#include "checkpoint/state/write_log.h"
#include "plan/measure/gradient_hooks.h"
#include "plan/measure/trace_clock.h"
#include "plan/measure/untouched_state.h"
#include "plan/trace/node_listener.h"
#include "plan/trace/op_recorder.h"
#include "plan/trace/region_record.h"
#include "plan/trace/step_cuts.h"
#include "plan/trace/step_trace.h"
#include "plan/trace/storage_recorder.h"

#include <reprise/detail/planned_region.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace reprise::planning {

class StepTracer final : detail::RegionListener,
                         detail::OpObserver,
                         detail::WriteListener,
                         detail::RegionPlanner,
                         NodeListener,
                         public std::enable_shared_from_this<StepTracer> {
 public:
  /// Whether the step leaves everything as it was, or has the effects that it always has.
  enum class Effects : uint8_t { Undone, Lasting };

  /// `timer` predicts the time where nothing is computed (the meta device).
  explicit StepTracer(c10::Device device,
                      OpTimer* timer = nullptr,
                      Effects effects = Effects::Undone,
                      TraceOptions options = {});
  ~StepTracer();
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  /// Once per tracer, which a std::shared_ptr must own. A region that outlives the step may refer
  /// to the tracer for longer, but is no longer heard.
  StepTrace run(const std::function<void()>& step);

  /// The same for a step that is no function. All three on one thread; close() also without end(),
  /// if the step was not completed.
  void begin();
  StepTrace end();
  void close();

 private:
  struct Listening;

  // RegionListener
  detail::OpObserver* forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                     const CheckpointOptions& options,
                                     const std::vector<at::Tensor>& inputs,
                                     detail::OpObserver* recorder) override;
  void packed(const detail::Frame& frame, const at::Tensor& tensor) override;
  void forward_ended(const detail::Frame& frame) override;
  void recompute_begins(const detail::Frame& frame) override;
  detail::OpObserver* recompute_runs(const detail::Frame& frame,
                                     detail::OpObserver* replayer) override;
  void recompute_ended(const detail::Frame& frame) override;

  // OpObserver
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;
  /// std::nullopt: the step is over.
  std::optional<OpRecorder::Call> begin_op(const c10::OperatorHandle& op,
                                           c10::ArrayRef<c10::IValue> arguments);

  // WriteListener
  void before_write(const at::Tensor& target) override;
  bool is_of_region() const override { return false; }
  void after_write() override {}

  // RegionPlanner: every region runs as it asks, and none are joined.
  std::optional<CheckpointOptions> plan(const CheckpointOptions& asked,
                                        const std::vector<at::Tensor>& inputs) override;
  std::optional<detail::JoinedRegions> join(
      const std::vector<const CheckpointOptions*>& chain) override;
  void joined_begins(size_t index, const std::vector<at::Tensor>& inputs) override;
  void ended(size_t saves) override;

  // NodeListener
  void node_begins() override;
  void node_ended() override;

  /// Whether `frame` is the outermost region that runs, in this phase.
  bool is_running(const detail::Frame& frame, StepPhase phase) const;
  void tell_of_region() const;
  StepTrace finish();
  /// A gradient that processes have summed is in place.
  void gradient_summed(int64_t bytes);
  /// Whether a gradient is one that the step makes.
  bool is_new_gradient(const at::Tensor& leaf);

  std::mutex mutex_;
  bool is_over_ = false;
  const Effects effects_;
  const TraceOptions options_;
  std::optional<GradientHooks> sums_;  // from begin() to end()
  OpTimer* timer_;                     // null where steps are computed
  TraceClock clock_;
  StepTrace trace_;
  StorageRecorder storages_{trace_};
  std::vector<RegionRecord> regions_;  // as trace_.regions
  StepCuts cuts_;
  OpRecorder ops_;
  std::unique_ptr<UntouchedState> state_;     // if effects are undone
  std::map<const void*, bool> had_gradient_;  // by leaf, if effects last
  std::unique_ptr<Listening> listening_;      // from begin() to end()
  size_t begun_ = 0;                          // mark of the clock
  size_t nodes_ = 0;                          // of backward, so far
  size_t planned_ = 0;                        // regions before the one that asked last
  size_t joinable_ = 0;  // regions that can be joined with the one that is about to begin
};

}  // namespace reprise::planning
