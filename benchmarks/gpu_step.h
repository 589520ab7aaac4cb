// One timed training step: forward, loss and backward, and with an optimizer also clipping and the
// update. Gradients are freed between steps, outside of the timed part, as the peers do. With a
// CUDA graph its replay is timed. Under a budget the step runs with its plan.
#pragma once

#include "gpu_budget.h"
#include "gpu_device.h"
#include "gpu_kernels.h"
#include "gpu_model.h"
#include "gpu_options.h"
#include "gpu_profile.h"

#include <reprise/io/json.h>
#include <reprise/loss/head.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/offload.h>
#include <reprise/ops/step_graph.h>
#include <reprise/optim/optimizer.h>
#include <reprise/plan.h>
#include <reprise/stats.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpu {

using reprise::Json;

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(with_index(at::Device(options.device))),
        shape_(shape_named(options.shape)),
        tensors_(at::TensorOptions().device(device_).dtype(type_of(options.dtype))),
        model_(random_model(shape_, tensors_, options.has_lora)) {
    input_.input_ids =
        at::randint(shape_.vocabulary, {options.batch, options.seq}, tensors_.dtype(at::kLong));
    targets_ = at::constant_pad_nd(input_.input_ids.slice(1, 1), {0, 1}, reprise::kIgnoredLabel);
    const auto known = targets_.cpu();
    known_.add({known.const_data_ptr<int64_t>(), static_cast<size_t>(known.numel())});
    if (options.has_optimizer) {
      optimizer_ = reprise::Optimizer::make(reprise::trained_parameters(*model_), {});
    }
  }

  Json run(const std::string& mode) {
    set_mode(*model_, mode, options_.is_recorded);
    drop_gradients();
    loss_.reset();
    graph_.reset();
    plan_.reset();
    reprise::trim_offload_memory();
    const Json planned =
        mode.starts_with(kBudget) ? make_plan(mode.substr(kBudget.size())) : Json::object();
    empty_cache(device_);
    for (int64_t i = 0; i < options_.warmup; ++i) {
      timed_step();
    }
    const auto recomputed = regions_recomputed();
    if (options_.is_recorded) {
      // Replays allocate nothing: the peak is that of the capture and of the warm-up step before
      // it.
      empty_cache(device_);
      reprise::reset_peak_bytes(device_);
      record();
    } else {
      reprise::reset_peak_bytes(device_);
    }
    std::vector<double> times, launches;
    for (int64_t i = 0; i < options_.steps; ++i) {
      const auto [whole, launch] = timed_step();
      times.push_back(whole);
      launches.push_back(launch);
    }
    if (!options_.profile.empty()) {
      write_profile(options_.profile + "-" + mode + ".json", [this] { timed_step(); });
    }
    Json result = {{"ms", median(times)},
                   {"cpu_ms", median(launches)},
                   {"times", times},
                   {"peak_bytes", reprise::peak_bytes(device_)},
                   {"loss", loss_.item<double>()},
                   {"recomputed", recomputed}};
    result.update(planned);
    if (const auto reserved = peak_reserved_bytes(device_)) {
      result["reserved_bytes"] = *reserved;
    }
    if (const auto host = reprise::offload_use().host_bytes_peak; host > 0) {
      result["host_bytes"] = host;
    }
    return result;
  }

  std::string attention() const { return attention_of(shape_, options_.seq, tensors_); }

 private:
  static at::ScalarType type_of(const std::string& name) {
    return name == "bfloat16" ? at::kBFloat16 : name == "float16" ? at::kHalf : at::kFloat;
  }

  /// Sets the plan for the following steps. Returns its properties.
  Json make_plan(const std::string& budget) {
    if (budgets_ == nullptr) {
      timed_step();  // so that one-time allocations are not traced
      budgets_ = std::make_unique<StepBudgets>([this] { mean_loss().backward(); },
                                               device_,
                                               static_cast<int64_t>(options_.host_budget * 0x1p30));
    }
    const auto choice = budgets_->choose(budget);
    plan_ = choice.plan;
    auto line = plan_line(*budgets_, choice);
    line["plan_ms"] = budgets_->plan_ms();
    return line;
  }

  at::Tensor hidden_states() {
    if (!plan_) {
      return model_->hidden_states(input_);
    }
    const reprise::PlanGuard use(*plan_);
    auto hidden = model_->hidden_states(input_);
    use.finish();
    return hidden;
  }

  /// A separate function, so that nothing else owns the hidden states in backward.
  at::Tensor mean_loss() {
    const auto hidden = hidden_states();
    const auto values =
        reprise::linear_cross_entropy(hidden, model_->linear_head(), {targets_, known_});
    return values.sum / static_cast<double>(values.tokens);
  }

  void record() {
    const auto work = [this] {
      const auto loss = mean_loss();
      loss.backward();
      return loss.detach();
    };
    graph_ = std::make_unique<reprise::StepGraph>(
        reprise::StepGraph::record(work, model_->parameters()));
  }

  /// Does not wait for the device.
  void step() {
    if (graph_ != nullptr) {
      loss_ = graph_->replay();
      return;
    }
    const auto loss = mean_loss();
    loss.backward();
    loss_ = loss.detach();
    if (optimizer_ != nullptr) {
      reprise::clip_grad_norm(optimizer_->parameters(), /*max_norm=*/1.0);
      optimizer_->step(/*learning_rate=*/1e-6);
    }
  }

  struct StepTime {
    double whole, launch;
  };

  StepTime timed_step() {
    synchronize(device_);
    const auto start = std::chrono::steady_clock::now();
    step();
    const double launch = milliseconds_since(start);
    synchronize(device_);
    const double whole = milliseconds_since(start);
    drop_gradients();
    return {whole, launch};
  }

  /// Counted in a separate step, because counting takes a lock.
  int64_t regions_recomputed() {
    reprise::record_checkpoint_stats(true);
    reprise::reset_checkpoint_stats();
    timed_step();
    const auto count = reprise::checkpoint_stats().total.recomputed;
    reprise::record_checkpoint_stats(false);
    return static_cast<int64_t>(count);
  }

  void drop_gradients() { model_->zero_grad(/*set_to_none=*/true); }

  Options options_;
  at::Device device_;
  Shape shape_;
  at::TensorOptions tensors_;
  std::shared_ptr<reprise::Model> model_;
  std::unique_ptr<reprise::Optimizer> optimizer_;
  reprise::ModelInput input_;
  at::Tensor targets_, loss_;
  reprise::TargetSummary known_;
  std::unique_ptr<reprise::StepGraph> graph_;
  std::unique_ptr<StepBudgets> budgets_;
  std::optional<reprise::MemoryPlan> plan_;
};

}  // namespace gpu
