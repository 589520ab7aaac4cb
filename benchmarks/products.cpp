// The matrix products of a training step of SmolLM2-135M's shape in float32 on the CPU: by the
// library that Reprise chose for this processor, and by MKL. Prints a Markdown table; times are the
// least over the turns, in which the two alternate.
#include "ops/linear/matmul.h"

#include <reprise/model/amx_guard.h>
#include <reprise/ops/products.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace {

namespace ops = reprise::ops;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Options {
  int64_t rows = 1640;  // 4 rows of 410 tokens
  int64_t turns = 20;
  int threads = 2;
};

/// A linear layer, how many times a step has it, and the tokens that it is applied to at once.
struct Layer {
  const char* name;
  int64_t in, out, blocks;
  int64_t most_rows = std::numeric_limits<int64_t>::max();
};

constexpr Layer kLayers[] = {{"query, key, value", 576, 960, 30},
                             {"attention's output", 576, 576, 30},
                             {"gate and up", 576, 3072, 30},
                             {"down", 1536, 576, 30},
                             {"head, a chunk", 576, 49152, 1, 256}};

template <class Product>
double milliseconds(bool is_chosen, const Product& product) {
  at::globalContext().setUserEnabledMkldnn(is_chosen);
  const auto start = std::chrono::steady_clock::now();
  product();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  at::globalContext().setUserEnabledMkldnn(true);
  return time.count();
}

struct Times {
  double chosen = kNever, mkl = kNever;
};

template <class Product>
Times in_turns(int64_t turns, const Product& product) {
  Times least;
  for (int64_t turn = 0; turn < turns; ++turn) {
    least.mkl = std::min(least.mkl, milliseconds(false, product));
    least.chosen = std::min(least.chosen, milliseconds(true, product));
  }
  return least;
}

void print_row(const char* layer, const char* product, const Times& times) {
  std::printf("| %s | %s | %.2f | %.2f | %.2f |\n",
              layer,
              product,
              times.mkl,
              times.chosen,
              times.chosen / times.mkl);
}

void measure(const Options& options) {
  std::printf("| layer | product | MKL, ms | %s, ms | ratio |\n|---|---|---|---|---|\n",
              reprise::cpu_product_library());
  Times step{.chosen = 0, .mkl = 0};
  for (const Layer& layer : kLayers) {
    const int64_t rows = std::min(options.rows, layer.most_rows);
    const auto x = at::randn({rows, layer.in}), weight = at::randn({layer.out, layer.in});
    const auto gradient = at::randn({rows, layer.out});
    const auto forward = in_turns(options.turns, [&] { ops::matmul(x, weight, {.b = true}); });
    const auto for_x = in_turns(options.turns, [&] { ops::matmul(gradient, weight); });
    const auto for_weight = in_turns(options.turns, [&] { ops::matmul(gradient, x, {.a = true}); });
    print_row(layer.name, "forward", forward);
    print_row(layer.name, "gradient of x", for_x);
    print_row(layer.name, "gradient of the weight", for_weight);
    const auto times =
        static_cast<double>(layer.blocks > 1 ? layer.blocks : (options.rows + rows - 1) / rows);
    step.mkl += times * (forward.mkl + for_x.mkl + for_weight.mkl);
    step.chosen += times * (forward.chosen + for_x.chosen + for_weight.chosen);
  }
  print_row("all of a step", "without recomputing", step);
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app("Matrix products of a training step, by MKL and by the library that Reprise chose");
  Options options;
  app.add_option("--rows", options.rows, "Tokens of a step")->capture_default_str();
  app.add_option("--turns", options.turns, "Repetitions")->capture_default_str();
  app.add_option("--threads", options.threads, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(options.threads);
  const at::NoGradGuard no_grad;
  measure(options);
}
