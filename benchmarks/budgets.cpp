// Memory budgets on the CPU. Prints one JSON object per line, from which budgets.py makes a page:
// whether budgets are met and results are the same to the last bit (sweep), whether a plan is as
// fast as a fixed policy that takes the same memory (policies), and what training learns under a
// plan (learning).
#include "budget_model.h"

#include <reprise/model/amx_guard.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/optim/optimizer.h>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

using budgets::Step;
using reprise::BlockChoice;
using reprise::Json;

constexpr int64_t kEverything = int64_t{1} << 50;
constexpr budgets::Size kSweep{
    .hidden = 96, .intermediate = 256, .layers = 6, .rows = 4, .length = 96};
constexpr budgets::Size kTimed{
    .hidden = 192, .intermediate = 512, .layers = 6, .rows = 4, .length = 128};
constexpr budgets::Size kLearning{
    .hidden = 64, .intermediate = 160, .layers = 4, .rows = 8, .length = 64};

struct Options {
  std::vector<std::string> parts{"sweep", "policies", "learning"};
  int64_t budgets = 12;
  int64_t turns = 21;
  int64_t steps = 60;
  int threads = 1;  // the CPU time of one thread is hardly affected by other processes
};

void print(const Json& line) {
  std::cout << line.dump() << std::endl;  // flushed, because a run may be stopped
}

reprise::MemoryPlan plan_of(Step& step, const reprise::PlanOptions& options) {
  return reprise::plan([&] { step.run(); }, at::kCPU, options);
}

int64_t between(const reprise::MemoryPlan& plan, int64_t part, int64_t parts) {
  const int64_t least = plan.curve().front().peak_bytes, most = plan.curve().back().peak_bytes;
  return least + (most - least) * part / parts;
}

void sweep(const Options& options, const std::string& family, bool has_lora) {
  Step step(family, has_lora, kSweep);
  step.model->disable_checkpointing();
  step.run();
  const auto expected = step.results();
  step.model->zero_grad(/*set_to_none=*/true);
  step.model->enable_checkpointing();
  const auto widest = plan_of(step, {.budget = kEverything});
  for (int64_t i = 0; i < options.budgets; ++i) {
    const auto plan = widest.with_budget(between(widest, i, options.budgets - 1));
    step.run(plan);
    const bool is_equal = budgets::are_equal(step.results(), expected);
    const double loss = step.loss.item<double>();
    const int64_t measured = step.activation_bytes([&] { step.run(plan); });
    print({{"part", "sweep"},
           {"family", family},
           {"lora", has_lora},
           {"budget", plan.budget()},
           {"predicted", plan.peak_bytes()},
           {"measured", measured},
           {"predicted_extra_ms", plan.extra_ms()},
           {"equal", is_equal},
           {"loss", loss}});
  }
}

/// CPU time.
double milliseconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const double start = now();
  work();
  return now() - start;
}

/// Compares each policy with the plan whose budget is the memory of that policy, in alternation.
void policies(const Options& options) {
  Step step("llama", /*has_lora=*/false, kTimed);
  step.run();
  const auto drop = [&] { step.model->zero_grad(/*set_to_none=*/true); };
  drop();
  const auto widest = plan_of(step, {.budget = kEverything});
  for (const std::string name : {"full", "attention", "every2", "matmuls"}) {
    const auto set_policy = [&] {
      name == "every2" ? step.model->enable_checkpointing(BlockChoice::every(2))
                       : step.model->enable_checkpointing(BlockChoice::all(),
                                                          reprise::checkpoint_options_named(name));
    };
    set_policy();
    step.run();
    const int64_t budget = step.activation_bytes([&] { step.run(); });
    const auto plan = widest.with_budget(std::max(budget, between(widest, 0, 1)));
    Json fixed = Json::array(), planned = Json::array();
    int64_t measured = 0;
    for (int64_t turn = -1; turn < options.turns; ++turn) {  // the first one warms up
      set_policy();
      const double policy_ms = milliseconds([&] { step.run(); });
      drop();
      step.model->enable_checkpointing();
      const double plan_ms = milliseconds([&] { step.run(plan); });
      if (turn >= 0) {
        fixed.push_back(policy_ms);
        planned.push_back(plan_ms);
        drop();
      } else {
        measured = step.activation_bytes([&] { step.run(plan); });
      }
    }
    print({{"part", "policies"},
           {"policy", name},
           {"policy_bytes", budget},
           {"plan_bytes", measured},
           {"policy_ms", fixed},
           {"plan_ms", planned}});
  }
}

/// Rows that count up, each with its own step: the next token follows from the previous two.
at::Tensor countings(const budgets::Size& size) {
  const auto first = torch::randint(budgets::kVocabulary, {size.rows, 1}, at::kLong);
  const auto by = torch::randint(1, 8, {size.rows, 1}, at::kLong);
  return (first + by * torch::arange(size.length)) % budgets::kVocabulary;
}

int64_t compressed(const reprise::MemoryPlan& plan) {
  int64_t count = 0;
  for (const auto& region : plan.decisions()) {
    count += std::count_if(region.ops.begin(), region.ops.end(), [](const auto& op) {
      return op.decision == reprise::Decision::Compress;
    });
  }
  return count;
}

/// The losses of training under a plan. `way` names it; "none" means no checkpointing.
void learning(const Options& options, const std::string& way, const reprise::PlanOptions& wanted) {
  Step step("llama", /*has_lora=*/false, kLearning);
  const auto widest = plan_of(step, wanted);
  const auto plan = widest.with_budget(between(widest, 1, 4));
  if (way == "none") {
    step.model->disable_checkpointing();
  }
  const auto optimizer = reprise::Optimizer::make(reprise::trained_parameters(*step.model), {});
  torch::manual_seed(1);
  Json losses = Json::array();
  for (int64_t i = 0; i < options.steps; ++i) {
    step.set_batch(countings(kLearning));
    way == "none" ? step.run() : step.run(plan);
    optimizer->step(/*learning_rate=*/3e-3);
    step.model->zero_grad(/*set_to_none=*/true);
    losses.push_back(step.loss.item<double>());
  }
  print({{"part", "learning"},
         {"way", way},
         {"predicted", way == "none" ? widest.curve().back().peak_bytes : plan.peak_bytes()},
         {"compressed", way == "none" ? 0 : compressed(plan)},
         {"losses", losses}});
}

void run(const Options& options) {
  for (const auto& part : options.parts) {
    if (part == "sweep") {
      for (const std::string family : {"llama", "qwen2", "gpt2", "gpt_neox"}) {
        for (const bool has_lora : {false, true}) {
          sweep(options, family, has_lora);
        }
      }
    } else if (part == "policies") {
      policies(options);
    } else {
      learning(options, "none", {.budget = kEverything});
      learning(options, "exact", {.budget = kEverything});
      learning(options, "lossy", {.budget = kEverything, .allow_lossy = true});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app{"Memory budgets on the CPU: JSON lines for budgets.py."};
  Options options;
  app.add_option("--parts", options.parts)
      ->delimiter(',')
      ->check(CLI::IsMember({"sweep", "policies", "learning"}));
  app.add_option("--budgets", options.budgets, "Number of budgets per model")
      ->check(CLI::Range(2, 1000));
  app.add_option("--turns", options.turns, "Alternations of a policy and its plan")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "Training steps of learning")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    reprise::track_cpu_memory();
    at::set_num_threads(options.threads);
    run(options);
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "bench_budgets: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "bench_budgets: " << error.what() << "\n";
  }
  return 1;
}
