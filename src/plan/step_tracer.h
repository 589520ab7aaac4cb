// Watches one step as it runs and writes its trace: Note [A step in intervals].
//
// It hears of operators (its own regions' and those outside), of writes, of regions and of the
// nodes of backward, which may come from threads of the autograd engine.
#pragma once

#include "checkpoint/op_observer.h"
#include "checkpoint/region_listener.h"
#include "checkpoint/write_log.h"
#include "plan/activation_counter.h"
#include "plan/step_trace.h"
#include "plan/storage_ledger.h"
#include "plan/trace_clock.h"
#include "plan/untouched_state.h"

#include <reprise/detail/planned_region.h>

#include <torch/csrc/autograd/function.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::planning {

class StepTracer final : detail::RegionListener,
                         detail::OpObserver,
                         detail::WriteListener,
                         detail::RegionPlanner {
 public:
  /// `timer`: tells the time where nothing is computed (the meta device).
  explicit StepTracer(c10::Device device, OpTimer* timer = nullptr);

  StepTrace run(const std::function<void()>& step);

  void node_begins();
  void node_ended();

 private:
  /// A storage that a region was called with.
  struct Input {
    size_t number = 0;  // in the ledger
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    uint32_t version = 0;
    TracedInput traced;
  };
  /// A region while it is traced, beside what becomes of it in the trace.
  struct Watch {
    std::weak_ptr<detail::Frame> frame;
    const detail::Frame* id = nullptr;  // told apart by `frame`, which keeps the address taken
    bool has_autocast = false;
    std::map<std::pair<const void*, size_t>, size_t> op_of_call;
    std::map<const void*, size_t> calls;    // of the run that is going on
    std::vector<std::vector<size_t>> made;  // by operator: storages of the trace
    std::vector<size_t> raw_bytes;          // by operator: before the allocator's rounding
    std::vector<std::pair<size_t, size_t>> op_times;
    std::vector<Input> inputs;
    size_t raw_input_bytes = 0;
    size_t begun = 0, ended = 0;
    std::optional<size_t> recompute_begun, recompute_ended, backward_ended;
  };
  /// What a storage of the ledger stands for.
  struct Role {
    size_t storage = kNone;  // in the trace; kNone: made outside of regions
    bool is_remade = false;
    int64_t bytes = 0;
    size_t made = 0, died = kNone;
  };
  struct OpCall {
    size_t op = kNone;  // of the region that runs
    std::vector<const c10::StorageImpl*> arguments;
    size_t begun = 0;
  };

  // What we hear.
  detail::OpObserver* forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                     const CheckpointOptions& options,
                                     const std::vector<at::Tensor>& inputs,
                                     detail::OpObserver* recorder) override;
  void packed(const detail::Frame& frame, const at::Tensor& tensor) override;
  void forward_ended(const detail::Frame& frame) override;
  detail::OpObserver* recompute_begins(const detail::Frame& frame,
                                       detail::OpObserver* replayer) override;
  void recompute_ended(const detail::Frame& frame) override;
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;
  void before_write(const at::Tensor& target) override;
  void after_write() override {}
  std::optional<CheckpointOptions> plan(const CheckpointOptions& asked) override;
  std::optional<detail::JoinedRegions> join(
      const std::vector<const CheckpointOptions*>& chain) override;

  // Operators.
  OpCall begin_op(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  bool is_timed(const OpCall& call) const;
  void end_op(const OpCall& call, c10::ArrayRef<c10::IValue> results);
  size_t number_op(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  void note_writes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  void note_new_storage(const at::Tensor& tensor, size_t op, size_t nth);

  // Inputs of regions.
  void note_inputs(Watch& watch, const std::vector<at::Tensor>& inputs) const;
  void find_private_inputs();

  // Cuts. Between what is observed nothing is computed, but storages die and the engine copies.
  void end_gap();
  int64_t end_work(size_t op);
  int64_t bury_dead(size_t last_interval);
  bool is_in_region() const;

  StepTrace finish();
  void summarize_intervals(StepTrace& trace) const;
  void summarize_inputs(StepTrace& trace) const;
  void summarize_times(StepTrace& trace) const;
  void find_kinds(StepTrace& trace) const;

  std::mutex mutex_;
  const std::thread::id thread_ = std::this_thread::get_id();
  ActivationCounter counter_;
  OpTimer* timer_;  // null where steps are computed
  TraceClock clock_;
  StorageLedger ledger_;
  UntouchedState state_;
  std::vector<Role> roles_;  // by number in the ledger
  std::vector<Watch> watches_;
  StepTrace trace_;
  size_t begun_ = 0;  // of the clock
  StepPhase phase_ = StepPhase::Outside;
  size_t region_ = 0;
  int64_t level_ = 0;              // activation bytes at the last cut
  bool has_inner_region_ = false;  // since the last cut
  size_t nodes_ = 0;
  size_t joinable_ = 0;  // with the region that is about to begin
  int64_t gradient_bytes_ = 0;
};

}  // namespace reprise::planning
