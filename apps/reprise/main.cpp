// The reprise program. What a command throws ends here, as one line on stderr and exit code 1; a
// command line that cannot be understood is CLI11's message and code.
#include "reprise/commands.h"

#include <reprise/dist/connect.h>
#include <reprise/model/amx_guard.h>

#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <exception>
#include <iostream>

namespace {

// Of commands that are not for several processes. `mpirun -n 4 reprise merge ...` is a slip.
void check_runs_once(const CLI::App& command) {
  const auto place = reprise::place_from_environment();
  TORCH_CHECK(!place || place->size == 1,
              command.get_name(),
              ": ",
              place->size,
              " processes would write one folder; run it once");
}

int run(int argc, char** argv) {
  CLI::App app{"Reprise: post-training of language models, with activation checkpointing."};
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);
  reprise::app::add_training_commands(app);
  reprise::app::add_launch(app);
  reprise::app::add_plan(app);
  reprise::app::add_generate(app);
  reprise::app::add_chat(app);
  reprise::app::add_score(app);
  reprise::app::add_tokenize(app);
  reprise::app::add_inspect(app);
  reprise::app::add_init(app);
  reprise::app::add_import(app);
  reprise::app::add_merge(app);
  reprise::app::add_demo(app);
  for (const char* name : {"init", "import", "merge"}) {
    auto* command = app.get_subcommand(name);
    command->preparse_callback([command](size_t) { check_runs_once(*command); });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  std::cout.flush();
  TORCH_CHECK(std::cout.good(), "standard output: could not be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  // Nothing links CUDA: LibTorch's CUDA library is loaded where it and its own libraries are
  // installed, and must be there before LibTorch is first used.
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  try {
    return run(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "reprise: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "reprise: " << error.what() << "\n";
  }
  return 1;
}
