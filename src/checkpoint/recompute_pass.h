// One run of a region's function in backward: receives the tensors that it saves, undoes its
// effects and compares it with forward.
#pragma once

#include "checkpoint/engine.h"
#include "checkpoint/frame.h"
#include "checkpoint/region_listener.h"

#include <torch/csrc/autograd/graph_task.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

/// One recompute of a region.
class RecomputePass final : public HookSource, public WriteListener {
 public:
  RecomputePass(Frame& frame, std::vector<at::Tensor>& into, std::optional<size_t> only)
      : frame_(frame),
        into_(into),
        only_(only),
        last_needed_(find_last_needed()),
        versions_(frame.region_.tensor_log),
        undo_(frame.region_.write_log),
        tensor_undo_(frame.region_.tensor_log),
        hooks_(frame.region_.tensor_log),
        reads_(frame.region_.reads, frame.region_.write_log, frame.region_.inputs),
        once_(frame.region_.once) {
    once_.at_end = [this] { stop_at_end_of_forward(); };
    if (frame.region_.draws) {
      draws_.emplace(*frame.region_.draws, frame.region_.options.generators);
      draws_->at_end = [this] { stop_at_end_of_forward(); };
    }
  }

  /// `notice`: null if the run is not reported.
  void run(const RecomputeNotice* notice);
  /// Whether the region may have drawn random numbers that were not replayed.
  bool is_suspect() const { return is_suspect_; }

  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override;
  void before_write(const at::Tensor& target) override;
  void after_write() override;
  void before_kernel_write(const at::Tensor& target) override;
  bool adds_hooks_again(const at::Tensor& tensor) override { return hooks_.is_outside(tensor); }
  unsigned next_hook(const at::Tensor& tensor) override;
  void before_set(const at::Tensor& target) override;
  uint64_t hook_limit() override {
    stop_at_end_of_forward();
    // A captured tensor may have got a history since, which leads back to this region.
    frame_.region_.check_reads(reads_);
    return hooks_.next_limit();
  }

  /// `tensor` without its history.
  const at::Tensor& alias_of(const at::Tensor& tensor);
  void receive(const at::Tensor& tensor, const at::Tensor& alias);

 private:
  size_t find_last_needed() const;
  void run_body(std::vector<at::Tensor> inputs);
  void compare(size_t index, const at::Tensor& tensor);
  void compare_values(size_t index, const at::Tensor& tensor);
  bool may_be_unused_seed(size_t index) const;

  // recompute_mismatch.cpp: what messages say.
  /// Throws if the recompute did different work.
  void check_finished();
  std::string other_metadata(size_t index, const at::Tensor& tensor) const;
  std::string other_values(size_t index, uint64_t before, uint64_t now) const;
  /// The operators that saved tensors before that one, in forward's order.
  std::string saved_before(size_t index) const;
  static std::string made_by(const at::Tensor& tensor);
  /// What has probably changed, and what to do.
  std::string advice() const;

  void report(const Replayer* replayer, std::chrono::nanoseconds time) const;
  [[noreturn]] void stop();
  /// A backward call inside the region's own forward recomputes only what forward has done so far.
  /// Call it before anything that has effects.
  void stop_at_end_of_forward();

  Frame& frame_;
  std::vector<at::Tensor>& into_;
  const std::optional<size_t> only_;
  const size_t last_needed_;
  const int graph_task_ = torch::autograd::get_current_graph_task_id();
  VersionUndo versions_;
  WriteUndo undo_;
  TensorUndo tensor_undo_;
  HookReplay hooks_;
  ReadCheck reads_;
  std::optional<DrawReplay> draws_;
  OnceReplay once_;
  bool is_suspect_ = false;
  // Holds no memory that `into_` does not hold.
  at::Tensor last_saved_;
  at::Tensor last_alias_;
  size_t received_ = 0;
  bool has_stopped_ = false;
  bool awaits_write_ = false;
  bool stops_after_write_ = false;
  std::vector<std::pair<size_t, at::Tensor>> unwritten_;
  // The first difference found. Thrown at the end, because user code could catch an exception
  // thrown inside it.
  std::string difference_;
  std::string first_extra_;  // what made the first tensor beyond forward's last one
};

}  // namespace reprise::detail
