// Tokens per second of a rollout. Does the same work as rollout_peer.py, which documents what is
// measured. Prints one JSON object; rollout_compare.py runs both in alternation.
#include <reprise/io/json.h>
#include <reprise/memory.h>
#include <reprise/model/amx_guard.h>
#include <reprise/model/pretrained.h>
#include <reprise/train/rollout.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

namespace {

using reprise::Json;
using Prompts = std::vector<std::vector<int64_t>>;

constexpr int64_t kGreedyTokens = 16;

struct Options {
  std::string model;
  std::string device = "cpu";
  std::string dtype = "float32";
  int64_t batch = 8;
  int64_t prompt_tokens = 64;
  int64_t new_tokens = 128;
  int64_t repeats = 3;
  int threads = 2;
};

/// The same ids as in model_peer.py.
Prompts make_prompts(const Options& options, int64_t vocabulary) {
  Prompts prompts(static_cast<size_t>(options.batch));
  int64_t count = 0;
  for (auto& prompt : prompts) {
    for (int64_t i = 0; i < options.prompt_tokens; ++i) {
      prompt.push_back((count++ * 7919 + 13) % vocabulary);
    }
  }
  return prompts;
}

Json measure(const Options& options) {
  const auto model =
      reprise::load_model(options.model,
                          {.dtype = options.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat,
                           .device = at::Device(options.device)})
          .model;
  const auto prompts = make_prompts(options, model->config().vocabulary);
  reprise::RolloutOptions greedy{.batch_size = options.batch};
  greedy.generate.max_new_tokens = kGreedyTokens;
  Json logprobs = Json::array();
  for (const auto& result : reprise::rollout(*model, prompts, greedy)) {  // also warms up
    for (const float value : result.logprobs) {
      logprobs.push_back(value);
    }
  }
  auto sampled = greedy;
  sampled.generate.max_new_tokens = options.new_tokens;
  sampled.generate.sampling.temperature = 1;
  std::vector<double> seconds;
  const std::clock_t cpu_start = std::clock();
  for (int64_t i = 0; i < options.repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    reprise::rollout(*model, prompts, sampled);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  std::sort(seconds.begin(), seconds.end());
  const double median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  const auto tokens = static_cast<double>(options.batch * options.new_tokens);
  return {{"tokens_per_second", tokens / median},
          {"tokens_per_cpu_second", tokens * static_cast<double>(options.repeats) / cpu_seconds},
          {"greedy_logprobs", logprobs}};
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app{"Tokens per second of a rollout."};
  Options options;
  app.add_option("--model", options.model, "Checkpoint")->required();
  app.add_option("--device", options.device);
  app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber);
  app.add_option("--prompt-tokens", options.prompt_tokens)->check(CLI::PositiveNumber);
  app.add_option("--new-tokens", options.new_tokens)->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.device == "cpu") {
    reprise::track_cpu_memory();  // as the program does for training, to reuse large blocks
  } else {
    dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  }
  at::set_num_threads(options.threads);
  try {
    std::cout << measure(options).dump() << "\n";
  } catch (const c10::Error& error) {
    std::cerr << "bench_rollout: " << error.what_without_backtrace() << "\n";
    return 1;
  }
}
