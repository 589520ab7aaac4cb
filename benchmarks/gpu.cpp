// A training step on the GPU under each checkpointing mode: median time, launch time and peak
// bytes, as one JSON object per mode and line. gpu_peer.py does the same work with transformers,
// and gpu_compare.py runs both.
#include "gpu_kernels.h"
#include "gpu_step.h"

#include <reprise/memory.h>
#include <reprise/model/amx_guard.h>
#include <reprise/ops/cuda_kernels.h>

#include <CLI/CLI.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using gpu::Json;
using gpu::Options;

void print(const Options& options, const Json& line) {
  if (options.is_json) {
    std::cout << line.dump() << std::endl;  // flushed, because a run may be stopped
  } else if (line.contains("error")) {
    std::cout << line["mode"].get<std::string>() << ": " << line["error"].get<std::string>()
              << std::endl;
  } else {
    constexpr double kGib = 1024.0 * 1024 * 1024;
    std::cout << line["mode"].get<std::string>() << ": " << line["ms"].get<double>() << " ms ("
              << line["cpu_ms"].get<double>() << " to launch), "
              << line["peak_bytes"].get<double>() / kGib << " GiB, loss "
              << line["loss"].get<double>() << std::endl;
  }
}

Json line_of(const Options& options, const std::string& mode) {
  return {{"side", "reprise"},
          {"shape", options.shape},
          {"batch", options.batch},
          {"seq", options.seq},
          {"mode", mode},
          {"dtype", options.dtype},
          {"lora", options.has_lora},
          {"optimizer", options.has_optimizer},
          {"deterministic", options.is_deterministic},
          {"graph", options.is_recorded},
          {"host_budget", options.host_budget}};
}

/// The longest step of all modes in seconds; std::nullopt if memory ran out.
std::optional<double> run_length(const Options& options, bool has_kernels) {
  gpu::Bench bench(options);
  const auto attention = bench.attention();
  double longest = 0;
  bool has_memory = true;
  for (const auto& mode : options.modes) {
    Json line = line_of(options, mode);
    line.update({{"attention", attention}, {"kernels", has_kernels}});
    try {
      line.update(bench.run(mode));
      longest = std::max(longest, line["ms"].get<double>() / 1e3);
    } catch (const c10::OutOfMemoryError&) {
      line["error"] = "out of memory";
      has_memory = false;
    } catch (const gpu::BudgetTooSmall& error) {
      line["error"] = error.what();
    }
    print(options, line);
  }
  return has_memory ? std::optional(longest) : std::nullopt;
}

/// Time grows at most with the square of the length, so lengths that might take too long are
/// skipped.
void run_lengths(Options options, bool has_kernels) {
  std::optional<double> seconds = 0;
  double before = 1;
  for (const int64_t length : options.lengths) {
    const double growth = static_cast<double>(length) / before;
    options.seq = length;
    if (*seconds * growth * growth > options.seconds) {
      for (const auto& mode : options.modes) {
        Json line = line_of(options, mode);
        line["error"] = "a step might take " + std::to_string(*seconds * growth * growth) + " s";
        print(options, line);
      }
      return;
    }
    seconds = run_length(options, has_kernels);
    if (!seconds) {
      return;
    }
    before = static_cast<double>(length);
  }
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app{"A training step on the GPU under each checkpointing mode."};
  Options options;
  app.add_option("--shape", options.shape)->check(CLI::IsMember({"1b", "8b", "tiny"}));
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber);
  auto* seq = app.add_option("--seq", options.seq)->check(CLI::Range(2, 1 << 20));
  auto* lengths = app.add_option("--lengths",
                                 options.lengths,
                                 "Increasing values of --seq, until memory or time run out")
                      ->delimiter(',')
                      ->excludes(seq)
                      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--seconds", options.seconds, "The longest step of --lengths")->needs(lengths);
  app.add_option(
         "--modes",
         options.modes,
         "none, attention, matmuls, every<n>, full; <policy>_but_last does not checkpoint the last "
         "block, <policy>_offload moves the inputs of blocks to the host; budget:<GiB>, budget:min "
         "and budget:max plan the step for that much memory in total")
      ->delimiter(',');
  app.add_option("--steps", options.steps)->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup)->check(CLI::NonNegativeNumber);
  app.add_option("--dtype", options.dtype)
      ->check(CLI::IsMember({"bfloat16", "float16", "float32"}));
  app.add_option("--device", options.device, "Use cpu with --shape tiny to try it without a GPU");
  app.add_option("--profile", options.profile, "Write PATH-<mode>.json, a Chrome trace of a step");
  app.add_option(
         "--host_budget", options.host_budget, "GiB that budget:<...> may offload to the host")
      ->check(CLI::PositiveNumber);
  app.add_flag("--lora", options.has_lora, "Adapters of rank 16 on all projections");
  auto* optimizer =
      app.add_flag("--optimizer", options.has_optimizer, "The whole step: clipping and AdamW too");
  app.add_flag("--graph",
               options.is_recorded,
               "Record the step as a CUDA graph and time its replays; the peak is the recording's")
      ->excludes(optimizer);
  app.add_flag("--deterministic", options.is_deterministic);
  app.add_flag("--json", options.is_json, "One JSON object per mode");
  CLI11_PARSE(app, argc, argv);
  try {
    bool has_kernels = false;
    if (options.device == "cpu") {
      reprise::track_cpu_memory();
    } else {
      dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
      has_kernels = reprise::load_cuda_kernels();
      if (!has_kernels) {
        std::cerr << "bench_gpu: " << reprise::missing_cuda_kernels() << "\n";
      }
    }
    const auto is_budget = [](const auto& mode) { return mode.starts_with(gpu::kBudget); };
    TORCH_CHECK(options.host_budget == 0 ||
                    std::any_of(options.modes.begin(), options.modes.end(), is_budget),
                "--host_budget is for plans: none of --modes is budget:<GiB>.");
    gpu::choose_kernels(options.is_deterministic);
    if (options.lengths.empty()) {
      run_length(options, has_kernels);
    } else {
      run_lengths(options, has_kernels);
    }
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "bench_gpu: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "bench_gpu: " << error.what() << "\n";
  }
  return 1;
}
