#include "reprise/training/run/run_warnings.h"

#include "reprise/training/flags/flag_spec.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>

namespace reprise::app {

namespace {

std::optional<double> metric(const Json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

double mean_of(const double* first, size_t count) {
  return std::accumulate(first, first + count, 0.0) / static_cast<double>(count);
}

/// One more in a row, or none.
void count(int64_t& in_a_row, bool happened) {
  in_a_row = happened ? in_a_row + 1 : 0;
}

}  // namespace

RunWarnings::RunWarnings(const TrainingFlags& flags, int64_t first_step)
    : flags_(flags), is_whole_(first_step == 0) {}

std::vector<std::string> RunWarnings::after_step(int64_t step, int64_t total, const Json& record) {
  new_.clear();
  watch_rewards(record);
  watch_lengths(record);
  watch_gradient(record);
  watch_loss(step, total, record);
  return new_;
}

// Not every step has its own generation.
void RunWarnings::watch_rewards(const Json& record) {
  const auto reward = metric(record, "reward");
  if (!reward) {
    return;
  }
  const bool compares = flags_.objective == Objective::Grpo && flags_.num_generations > 1;
  const bool is_constant =
      metric(record, "reward_std") == 0.0 && (equal_rewards_ == 0 || *reward == reward_);
  const bool has_no_signal = compares && metric(record, "frac_reward_zero_std") == 1.0;
  count(equal_rewards_, is_constant || has_no_signal);
  reward_ = *reward;
  if (equal_rewards_ == kInARow) {
    warn("reward",
         "all completions of a prompt got the same reward in " + std::to_string(kInARow) +
             " generations (now " + human_number(*reward) +
             "): there is nothing to learn from. Look at completions in samples.jsonl; check the "
             "reward and the column that it reads; raise --temperature or --num_generations, or "
             "take easier prompts");
  }
}

void RunWarnings::watch_lengths(const Json& record) {
  const auto share = metric(record, "completions/clipped_ratio");
  if (!share) {
    return;
  }
  count(cut_off_, *share == 1.0);
  if (cut_off_ == kInARow) {
    warn("length",
         "every completion of " + std::to_string(kInARow) +
             " generations was cut off at --max_completion_length " +
             std::to_string(flags_.max_completion_length) +
             ": none came to its end. Raise it, or give --stop_strings");
  }
}

void RunWarnings::watch_gradient(const Json& record) {
  const auto norm = metric(record, "grad_norm");
  if (!norm) {
    return;  // the policy rests while the critic warms up
  }
  count(zero_gradients_, *norm == 0.0);
  if (zero_gradients_ == kInARow && !given_.contains("reward")) {
    warn("gradient",
         "the gradient norm was 0 in " + std::to_string(kInARow) + " steps: no weight changes. " +
             (is_online(flags_.objective)
                  ? "Look at rewards and completions in samples.jsonl"
                  : "Look at what is trained on with --show_example, and at --freeze and "
                    "--train_only"));
  }
}

void RunWarnings::watch_loss(int64_t step, int64_t total, const Json& record) {
  constexpr int64_t kShortest = 20;  // steps; below, a loss says little
  const auto loss = metric(record, "loss");
  if (!loss || !is_whole_ || is_online(flags_.objective) || total < kShortest) {
    return;
  }
  losses_.push_back(*loss);
  const auto window = static_cast<size_t>(std::clamp<int64_t>(total / 10, 5, 50));
  if (step != std::max(total / 2, int64_t{10}) || losses_.size() < 2 * window) {
    return;
  }
  const double first = mean_of(losses_.data(), window);
  const double last = mean_of(losses_.data() + losses_.size() - window, window);
  if (!(last < first)) {
    warn("loss",
         "after " + std::to_string(step) + " of " + std::to_string(total) + " steps the loss (" +
             human_number(last) + ", a mean of " + std::to_string(window) +
             " steps) is not below its start (" + human_number(first) +
             "). Try another --learning_rate (now " + human_number(flags_.learning_rate) +
             "), and look at what is trained on with --show_example");
  }
}

void RunWarnings::warn(const std::string& kind, const std::string& text) {
  if (given_.insert(kind).second) {
    new_.push_back("warning: " + text);
  }
}

}  // namespace reprise::app
