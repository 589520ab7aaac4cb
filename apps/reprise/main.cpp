// The reprise program. The only place that reads flags, prints and catches.
#include "reprise/demo.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <dlfcn.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  // Nothing links CUDA: LibTorch's CUDA library is loaded where it and its own libraries are
  // installed, and must be there before LibTorch is first used.
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);

  CLI::App app{"Reprise: activation checkpointing for LibTorch."};
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);
  reprise::app::DemoOptions demo;
  auto* demo_command = app.add_subcommand(
      "demo",
      "Train a small transformer three ways (plain, full recompute, attention kept) and compare.");
  demo_command->add_option("--steps", demo.steps, "Training steps for each way")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  demo_command->add_option("--layers", demo.layers, "Transformer blocks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  demo_command->add_option("--batch", demo.batch, "Sequences per step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  demo_command->add_option("--length", demo.length, "Tokens (characters) per sequence")
      ->capture_default_str()
      ->check(CLI::Range(2, 1024));
  demo_command->add_option("--seed", demo.seed, "Seed for weights and data")->capture_default_str();
  demo_command
      ->add_option("--device", demo.device, "cpu or cuda; by default the GPU if there is one")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  CLI11_PARSE(app, argc, argv);

  try {
    return reprise::app::run_demo(demo);
  } catch (const c10::Error& error) {
    std::cerr << "reprise: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "reprise: " << error.what() << "\n";
  }
  return 1;
}
