// The cost of a training step and of loading a model. Does the same work as model_peer.py, which
// documents what is measured. Prints one JSON object; model_compare.py runs both in alternation.
#include "peak_growth.h"

#include <reprise/io/json.h>
#include <reprise/loss/next_token.h>
#include <reprise/model/amx_guard.h>
#include <reprise/model/pretrained.h>

#include <torch/torch.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using reprise::Json;

struct Options {
  std::string folder;
  int64_t batch = 1;
  int64_t tokens = 256;
  int64_t steps = 5;
  int threads = 2;
  bool checkpoints = false;
};

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// A model of SmolLM2-135M's shape with random weights, to run without a checkpoint.
std::shared_ptr<reprise::Model> fresh_model() {
  const Json json = {{"model_type", "llama"},
                     {"vocab_size", 49152},
                     {"hidden_size", 576},
                     {"intermediate_size", 1536},
                     {"num_hidden_layers", 30},
                     {"num_attention_heads", 9},
                     {"num_key_value_heads", 3},
                     {"tie_word_embeddings", true},
                     {"max_position_embeddings", 8192},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 100000.0}};
  auto model = std::make_shared<reprise::Model>(
      reprise::ModelConfig::from_json(json, "the built-in config"), reprise::HeadKind::CausalLm);
  model->initialize(0);
  return model;
}

Json step(const Options& options) {
  const auto model =
      options.folder.empty() ? fresh_model() : reprise::load_model(options.folder).model;
  model->train();
  if (options.checkpoints) {
    model->enable_checkpointing();
  }
  const auto count = torch::arange(options.batch * options.tokens, torch::kLong);
  reprise::ModelInput input;
  input.input_ids =
      ((count * 7919 + 13) % model->config().vocabulary).view({options.batch, options.tokens});
  {
    const torch::NoGradGuard no_grad;
    reprise::ModelInput few;
    few.input_ids = input.input_ids.slice(1, 0, 8);
    model->forward(few);
  }
  double loss_value = 0;
  const auto forward_and_backward = [&] {
    model->zero_grad();
    const auto loss = reprise::next_token_loss(model->forward(input), input.input_ids);
    loss.backward();
    loss_value = loss.item<double>();
  };
  const PeakGrowth peak;
  forward_and_backward();
  std::vector<double> times;
  for (int64_t i = 0; i < options.steps; ++i) {
    times.push_back(milliseconds(forward_and_backward));
  }
  std::sort(times.begin(), times.end());
  const size_t middle = times.size() / 2;
  const double median =
      times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return {{"mode", options.checkpoints ? "checkpoint" : "plain"},
          {"ms", median},
          {"peak_bytes", peak.bytes()},
          {"loss", loss_value}};
}

Json load(const Options& options) {
  const PeakGrowth peak;
  std::shared_ptr<reprise::Model> model;
  const double open = milliseconds([&] { model = reprise::load_model(options.folder).model; });
  int64_t weight_bytes = 0;
  const double read = milliseconds([&] {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model->parameters()) {
      parameter.sum().item<double>();
      weight_bytes += static_cast<int64_t>(parameter.nbytes());
    }
  });
  return {{"mode", "load"},
          {"open_ms", open},
          {"ms", open + read},
          {"peak_bytes", peak.bytes()},
          {"weight_bytes", weight_bytes}};
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app{"Cost of a training step and of a load."};
  app.require_subcommand(1);
  Options options;
  auto* step_command = app.add_subcommand("step", "Forward and backward of a llama");
  step_command->add_option("--model", options.folder, "Checkpoint; by default random weights");
  step_command->add_option("--batch", options.batch);
  step_command->add_option("--tokens", options.tokens);
  step_command->add_option("--steps", options.steps);
  step_command->add_flag("--checkpoint", options.checkpoints);
  auto* load_command = app.add_subcommand("load", "Open a checkpoint");
  load_command->add_option("folder", options.folder)->required();
  for (auto* command : {step_command, load_command}) {
    command->add_option("--threads", options.threads);
  }
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(options.threads);
  try {
    std::cout << (step_command->parsed() ? step(options) : load(options)).dump() << "\n";
  } catch (const c10::Error& error) {
    std::cerr << "bench_model: " << error.what_without_backtrace() << "\n";
    return 1;
  }
}
