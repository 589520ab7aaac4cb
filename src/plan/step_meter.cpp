#include "plan/step_meter.h"

#include "memory/allocation_watch.h"
#include "memory/cpu_counter.h"
#include "plan/measure/activation_counter.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

namespace reprise::planning {

using torch::autograd::AccumulateGrad;

/// Nodes may run on threads of the autograd engine.
class StepMeter::State final : public NodeListener {
 public:
  State(c10::Device device, Gradients gradients, int64_t limit)
      : gradients_(gradients), counter_(device) {
    if (limit == kNoLimit) {
      return;
    }
    if (device.is_cpu()) {
      counter_->set_limit(limit);
    } else {
      watch_.emplace(device, limit);
    }
  }

  void node_begins() override {
    const auto node = torch::autograd::get_current_node();
    if (const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get())) {
      const std::scoped_lock lock(mutex_);
      had_gradient_[accumulation] = accumulation->variable.grad().defined();
    }
  }

  void node_ended() override {
    const auto node = torch::autograd::get_current_node();
    const std::scoped_lock lock(mutex_);
    if (!counter_) {
      return;
    }
    has_nodes_ = true;
    peak_ = std::max(peak_, counter_->cut());
    const auto* accumulation = dynamic_cast<const AccumulateGrad*>(node.get());
    if (accumulation == nullptr || gradients_ == Gradients::Counted) {
      return;
    }
    const auto& gradient = accumulation->variable.grad();
    if (!had_gradient_[accumulation] && gradient.defined() && gradient.has_storage()) {
      counter_->set_aside(gradient.storage());
      if (watch_) {
        watch_->raise_floor(counted_bytes(gradient.storage(), counter_->device()));
      }
    }
  }

  int64_t peak() {
    const std::scoped_lock lock(mutex_);
    if (!has_nodes_) {
      peak_ = std::max(peak_, counter_->cut());
    }
    return peak_;
  }

  void stop() {
    const std::scoped_lock lock(mutex_);
    watch_.reset();
    counter_.reset();
  }

 private:
  const Gradients gradients_;
  std::mutex mutex_;
  std::optional<ActivationCounter> counter_;      // until the meter ends
  std::optional<memory::AllocationWatch> watch_;  // if there is a limit
  std::map<const void*, bool> had_gradient_;      // by node
  bool has_nodes_ = false;
  int64_t peak_ = 0;
};

StepMeter::StepMeter(c10::Device device, Gradients gradients, int64_t limit)
    : state_(std::make_shared<State>(device, gradients, limit)), nodes_(state_) {}

StepMeter::~StepMeter() {
  state_->stop();
}

int64_t StepMeter::peak() const {
  return state_->peak();
}

bool StepMeter::can_measure(c10::Device device) {
  return device.is_cpu() ? memory::CpuCounter::is_installed() : !device.is_meta();
}

}  // namespace reprise::planning
