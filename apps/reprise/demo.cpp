// `reprise demo`: trains a small model with three checkpointing policies in the loop of `reprise
// sft`, compares them in a table and writes a report.
#include "reprise/commands.h"
#include "reprise/demo_text.h"
#include "reprise/device.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>
#include <reprise/memory.h>
#include <reprise/model/pretrained.h>
#include <reprise/policy.h>
#include <reprise/report/report.h>
#include <reprise/report/units.h>
#include <reprise/train/sft.h>
#include <reprise/train/trainer.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise::app {
namespace {

namespace fs = std::filesystem;

struct DemoOptions {
  int steps = 8;
  int layers = 6;
  int batch = 4;
  int length = 256;
  uint64_t seed = 0;
  std::string device;
  fs::path output = "reprise-demo";
};

struct Way {
  std::string name;
  std::optional<CheckpointOptions> checkpointing;
};

struct Outcome {
  std::vector<Json> steps;  // as in metrics.jsonl
  std::vector<at::Tensor> weights;
};

/// Pieces of the repeated text at different offsets. Tokens are characters.
class TextPieces final : public Dataset {
 public:
  TextPieces(int64_t pieces, int64_t length) : pieces_(pieces), length_(length) {}

  int64_t size() const override { return pieces_; }
  int64_t length(int64_t /*index*/) const override { return length_; }
  std::string location_name(const RowLocation& location) const override {
    return "piece " + std::to_string(location.line);
  }

  Example at(int64_t index) const override {
    constexpr int64_t kStride = 131;  // does not divide the length of the text, so pieces differ
    TokenSequence sequence;
    for (int64_t t = 0; t < length_; ++t) {
      const auto place = static_cast<size_t>(index * kStride + t) % kDemoText.size();
      sequence.ids.push_back(static_cast<int64_t>(kDemoText[place]));
    }
    sequence.labels = sequence.ids;
    Example example;
    example.sequences = {std::move(sequence)};
    example.location.line = index + 1;
    return example;
  }

 private:
  int64_t pieces_;
  int64_t length_;
};

/// A small GPT-2 over characters. No attention dropout, so that attention stays a fused kernel.
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

class StepCollector final : public TrainingObserver {
 public:
  void on_step_end(const RunProgress& /*progress*/, const Json& record) override {
    steps.push_back(record);
  }
  std::vector<Json> steps;
};

Outcome train_way(const DemoOptions& options, const Way& way, at::Device device) {
  const auto model = std::make_shared<Model>(
      demo_config(options), HeadKind::CausalLm, at::TensorOptions(device).dtype(at::kFloat));
  model->initialize(options.seed);
  if (way.checkpointing) {
    model->enable_checkpointing(BlockChoice::all(), *way.checkpointing);
  }
  const auto objective = make_sft(model);
  TrainerOptions training;
  training.output = options.output / way.name;
  create_folder(training.output);
  fs::remove(training.output / "metrics.jsonl");
  training.batch_size = options.batch;
  training.max_steps = options.steps;
  training.learning_rate = 1e-3;
  training.seed = options.seed;
  training.save_steps = 0;
  StepCollector collector;
  const auto data = std::make_shared<TextPieces>(options.steps * options.batch, options.length);
  train({*objective, data, nullptr, [](const fs::path&) {}}, training, collector);
  Outcome outcome{std::move(collector.steps), {}};
  for (const auto& parameter : model->parameters()) {
    outcome.weights.push_back(parameter.detach());
  }
  return outcome;
}

bool is_same(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.steps.size(); ++i) {
    if (a.steps[i]["loss"] != b.steps[i]["loss"] ||
        a.steps[i]["grad_norm"] != b.steps[i]["grad_norm"]) {
      return false;
    }
  }
  for (size_t i = 0; i < a.weights.size(); ++i) {
    if (!at::equal(a.weights[i], b.weights[i])) {
      return false;
    }
  }
  return true;
}

void print_row(const std::string& label, const std::vector<std::string>& cells) {
  std::cout << std::left << std::setw(30) << label << std::right;
  for (const auto& cell : cells) {
    std::cout << std::setw(18) << cell;
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

double last(const Outcome& outcome, const char* key) {
  return outcome.steps.back()[key].get<double>();
}

double mean_ms(const Outcome& outcome) {
  double sum = 0;
  for (size_t i = 1; i < outcome.steps.size(); ++i) {  // the first step warms up
    sum += outcome.steps[i]["step_ms"].get<double>();
  }
  return sum / static_cast<double>(std::max<size_t>(outcome.steps.size() - 1, 1));
}

void print_table(const std::vector<Way>& ways, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> names;
  for (const auto& way : ways) {
    names.push_back(way.name);
  }
  print_row("", names);
  for (const size_t step : {size_t{0}, outcomes.front().steps.size() - 1}) {
    print_row("loss, step " + std::to_string(step + 1), outcomes, [step](const Outcome& outcome) {
      std::ostringstream text;
      text << std::fixed << std::setprecision(6) << outcome.steps[step]["loss"].get<double>();
      return text.str();
    });
  }
  const auto bytes = [&](const std::string& label, const char* key) {
    const double base = last(outcomes.front(), key);
    print_row(label, outcomes, [key](const Outcome& o) { return human_bytes(last(o, key)); });
    print_row("  of plain", outcomes, [key, base](const Outcome& o) {
      return std::to_string(static_cast<int>(100.0 * last(o, key) / base + 0.5)) + " %";
    });
  };
  bytes("activations kept", "activation_bytes");
  bytes("peak bytes of a step", "peak_bytes");
  print_row("time of a step", outcomes, [](const Outcome& o) {
    return human_seconds(mean_ms(o) / 1000);
  });
  print_row("  of it recomputing", outcomes, [](const Outcome& o) {
    return human_seconds(last(o, "recompute_ms") / 1000);
  });
  print_row("blocks recomputed in a step", outcomes, [](const Outcome& o) {
    return std::to_string(static_cast<int64_t>(last(o, "regions_recomputed")));
  });
}

void write_page(const DemoOptions& options,
                const std::vector<Way>& ways,
                const std::vector<Outcome>& outcomes) {
  std::vector<ReportRun> runs;
  for (size_t i = 0; i < ways.size(); ++i) {
    ReportRun run;
    run.name = ways[i].name;
    run.steps = outcomes[i].steps;
    std::vector<int64_t> blocks;
    for (int block = 0; ways[i].checkpointing && block < options.layers; ++block) {
      blocks.push_back(block);
    }
    run.configuration = {{"title", "reprise demo"},
                         {"model", "gpt2 of " + std::to_string(options.layers) + " blocks"},
                         {"data", "the beginning of Alice in Wonderland"},
                         {"objective", "sft"},
                         {"checkpointing", ways[i].name},
                         {"blocks", options.layers},
                         {"checkpointed_blocks", blocks}};
    runs.push_back(std::move(run));
  }
  write_report(options.output / "report.html", runs);
}

/// Whether all three runs had the same losses and weights, bit for bit.
bool run_demo(const DemoOptions& options) {
  track_cpu_memory();
  const auto device = choose_device(options.device);
  if (device.is_cuda()) {
    // Otherwise even two plain runs differ: some GPU kernels sum in varying order.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  const std::vector<Way> ways{
      {"plain", std::nullopt},
      {"full recompute", CheckpointOptions{}},
      {"attention kept", CheckpointOptions{.policy = policy::save_attention()}}};
  std::cout << "A transformer of " << options.layers << " blocks, " << options.batch << " x "
            << options.length << " tokens, float32 on " << device
            << "; every block is a checkpointed region.\n\n";
  std::vector<Outcome> outcomes;
  for (const auto& way : ways) {
    std::cerr << "training: " << way.name << " ...\n";
    outcomes.push_back(train_way(options, way, device));
  }
  print_table(ways, outcomes);
  const bool same = is_same(outcomes[0], outcomes[1]) && is_same(outcomes[0], outcomes[2]);
  std::cout << "\nLosses and gradient norms of all steps, and the weights after the last: "
            << (same ? "equal to the last bit." : "DIFFERENT. This is a bug.") << "\n";
  write_page(options, ways, outcomes);
  std::cout << "Charts: " << (options.output / "report.html").string() << "\n";
  return same;
}

}  // namespace

void add_demo(CLI::App& app) {
  auto options = std::make_shared<DemoOptions>();
  auto* command = app.add_subcommand("demo",
                                     "Train a small transformer with three checkpointing policies "
                                     "and compare loss, memory and time.");
  command->add_option("--steps", options->steps, "Training steps per run")
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
  command->add_option("--output_dir", options->output, "Folder for report.html and the metrics")
      ->capture_default_str();
  command->callback([options] {
    if (!run_demo(*options)) {
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace reprise::app
