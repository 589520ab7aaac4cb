// `reprise demo`: the same small training three ways, side by side.
#include "reprise/commands.h"
#include "reprise/device.h"

#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/model.h>
#include <reprise/policy.h>
#include <reprise/stats.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::app {
namespace {

// What the model learns to spell: public domain (Lewis Carroll, 1865).
constexpr std::string_view kText =
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or "
    "conversations in it, \"and "
    "what is the use of a book,\" thought Alice \"without pictures or conversations?\" So she was "
    "considering in her own "
    "mind (as well as she could, for the hot day made her feel very sleepy and stupid), whether "
    "the pleasure of making "
    "a daisy-chain would be worth the trouble of getting up and picking the daisies, when suddenly "
    "a White Rabbit with pink eyes ran close by her. There was nothing so very remarkable in that; "
    "nor did Alice think "
    "it so very much out of the way to hear the Rabbit say to itself, \"Oh dear! Oh dear! I shall "
    "be late!\" But when "
    "the Rabbit actually took a watch out of its waistcoat-pocket, and looked at it, and then "
    "hurried on, Alice "
    "started to her feet, for "
    "it flashed across her mind that she had never before seen a rabbit with either a "
    "waistcoat-pocket, or a watch to "
    "take out of it, and burning with curiosity, she ran across the field after it, and "
    "fortunately was just in time "
    "to see it pop down a large rabbit-hole under the hedge. ";

struct DemoOptions {
  int steps = 5;
  int layers = 6;
  int batch = 4;
  int length = 256;
  uint64_t seed = 0;
  std::string device;
};

struct Way {
  std::string name;
  std::optional<CheckpointOptions> checkpointing;
};

struct Outcome {
  std::vector<double> losses;
  std::vector<at::Tensor> gradients;  // of the last step
  int64_t peak_bytes = 0;             // of one step, beyond what lives between steps
  double milliseconds = 0;            // per step, without the first
  RegionStats stats;
};

/// GPT-2's architecture, small, over characters; dropout where attention stays a fused kernel.
ModelConfig demo_config(const DemoOptions& options) {
  const Json json = {{"model_type", "gpt2"},
                     {"vocab_size", 128},
                     {"n_embd", 256},
                     {"n_head", 8},
                     {"n_layer", options.layers},
                     {"n_positions", 1024},
                     {"attn_pdrop", 0.0}};
  return ModelConfig::from_json(json, "the demo's config");
}

/// Sequences of characters from random places of the text, which repeats.
at::Tensor sample_batch(const DemoOptions& options) {
  const auto size = static_cast<int64_t>(kText.size());
  const auto starts = torch::randint(size, {options.batch});
  auto ids = torch::empty({options.batch, options.length}, torch::kLong);
  for (int64_t b = 0; b < options.batch; ++b) {
    const auto start = starts[b].item<int64_t>();
    for (int64_t t = 0; t < options.length; ++t) {
      ids[b][t] = static_cast<int64_t>(kText[static_cast<size_t>((start + t) % size)]);
    }
  }
  return ids;
}

void synchronize(at::Device device) {
  if (device.is_cuda()) {
    torch::cuda::synchronize();
  }
}

Outcome train(const DemoOptions& options, const Way& way, at::Device device) {
  torch::manual_seed(options.seed);
  const auto model = std::make_shared<Model>(
      demo_config(options), HeadKind::CausalLm, at::TensorOptions(device).dtype(at::kFloat));
  model->initialize(options.seed);
  if (way.checkpointing) {
    model->enable_checkpointing(BlockChoice::all(), *way.checkpointing);
  }
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  reset_checkpoint_stats();
  Outcome outcome;
  std::chrono::duration<double, std::milli> time{0};
  for (int step = 0; step < options.steps; ++step) {
    ModelInput input;
    input.input_ids = sample_batch(options).to(device);
    optimizer.zero_grad();
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    const PeakTracker tracker(device);
    const auto loss = next_token_loss(model->forward(input), input.input_ids);
    loss.backward();
    synchronize(device);
    if (step > 0 || options.steps == 1) {
      time += std::chrono::steady_clock::now() - start;
    }
    outcome.peak_bytes = std::max(outcome.peak_bytes, tracker.extra());
    outcome.losses.push_back(loss.item<double>());
    if (step + 1 == options.steps) {
      for (const auto& parameter : model->parameters()) {
        outcome.gradients.push_back(parameter.grad().clone());
      }
    }
    optimizer.step();
  }
  outcome.milliseconds = time.count() / std::max(1, options.steps - 1);
  outcome.stats = checkpoint_stats().total;
  return outcome;
}

bool is_same(const Outcome& a, const Outcome& b) {
  if (a.losses != b.losses) {
    return false;
  }
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (!torch::equal(a.gradients[i], b.gradients[i])) {
      return false;
    }
  }
  return true;
}

std::string mebibytes(double bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << bytes / (1 << 20) << " MiB";
  return text.str();
}

void print_row(const std::string& label, const std::vector<std::string>& cells) {
  std::cout << std::left << std::setw(26) << label << std::right;
  for (const auto& cell : cells) {
    std::cout << std::setw(20) << cell;
  }
  std::cout << "\n";
}

template <class Cell>
void print_row(const std::string& label, const std::vector<Outcome>& outcomes, const Cell& cell) {
  std::vector<std::string> cells;
  for (const auto& outcome : outcomes) {
    cells.push_back(cell(outcome));
  }
  print_row(label, cells);
}

void print_report(const std::vector<Way>& ways, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> names;
  for (const auto& way : ways) {
    names.push_back(way.name);
  }
  print_row("", names);
  for (size_t step = 0; step < outcomes.front().losses.size(); ++step) {
    print_row("loss, step " + std::to_string(step + 1), outcomes, [step](const Outcome& outcome) {
      std::ostringstream text;
      text << std::fixed << std::setprecision(6) << outcome.losses[step];
      return text.str();
    });
  }
  const auto base = static_cast<double>(outcomes.front().peak_bytes);
  print_row("peak bytes of a step", outcomes, [](const Outcome& o) {
    return mebibytes(double(o.peak_bytes));
  });
  print_row("  of plain", outcomes, [base](const Outcome& o) {
    return std::to_string(static_cast<int>(100.0 * double(o.peak_bytes) / base + 0.5)) + " %";
  });
  print_row("time of a step", outcomes, [](const Outcome& o) {
    return std::to_string(static_cast<int>(o.milliseconds + 0.5)) + " ms";
  });
  const auto per_region = [](size_t value, const Outcome& o) {
    return o.stats.entered == 0 ? std::string("-")
                                : mebibytes(double(value) / double(o.stats.entered));
  };
  print_row("dropped per block", outcomes, [&](const Outcome& o) {
    return per_region(o.stats.bytes_dropped, o);
  });
  print_row("kept per block", outcomes, [&](const Outcome& o) {
    return per_region(o.stats.bytes_kept, o);
  });
}

/// Returns whether all three ways gave the same losses and gradients to the last bit.
bool run_demo(const DemoOptions& options) {
  track_cpu_memory();
  const auto device = choose_device(options.device);
  if (device.is_cuda()) {
    // Otherwise two plain runs already differ: some GPU kernels add in an order of their own.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  record_checkpoint_stats(true);
  const std::vector<Way> ways{
      {"plain", std::nullopt},
      {"full recompute", CheckpointOptions{.name = "block"}},
      {"attention kept", CheckpointOptions{.policy = policy::save_attention(), .name = "block"}}};
  std::cout << "A transformer of " << options.layers << " blocks, " << options.batch << " x "
            << options.length << " tokens, float32 on " << device
            << "; every block is a checkpointed region.\n\n";
  std::vector<Outcome> outcomes;
  for (const auto& way : ways) {
    std::cerr << "training: " << way.name << " ...\n";
    outcomes.push_back(train(options, way, device));
  }
  print_report(ways, outcomes);
  const bool same = is_same(outcomes[0], outcomes[1]) && is_same(outcomes[0], outcomes[2]);
  std::cout << "\nLosses of all steps and gradients of the last: "
            << (same ? "equal to the last bit." : "DIFFERENT. This is a bug.") << "\n";
  return same;
}

}  // namespace

void add_demo(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  auto* command = app.add_subcommand(
      "demo",
      "Train a small transformer three ways (plain, full recompute, attention kept) and compare.");
  command->add_option("--steps", options->steps, "Training steps for each way")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--layers", options->layers, "Transformer blocks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", options->batch, "Sequences per step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--length", options->length, "Tokens (characters) per sequence")
      ->capture_default_str()
      ->check(CLI::Range(2, 1024));
  command->add_option("--seed", options->seed, "Seed for weights and data")->capture_default_str();
  add_device_option(*command, options->device);
  command->callback([options] {
    if (!run_demo(*options)) {
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace reprise::app
