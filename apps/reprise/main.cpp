// The reprise program. An exception from a command is printed here as one line on stderr, with exit
// code 1. CLI11 prints its own errors about the command line and chooses their exit code.
#include "reprise/commands.h"
#include "reprise/error_text.h"
#include "reprise/help/help_text.h"
#include "reprise/launch/separator.h"
#include "reprise/repeated_flags.h"
#include "reprise/terminal_text.h"

#include <reprise/dist/connect.h>
#include <reprise/io/file.h>
#include <reprise/model/amx_guard.h>

#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <unistd.h>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

// Some commands must not run in several processes: `mpirun -n 4 reprise merge ...` is a mistake.
void check_runs_once(const CLI::App& command) {
  const auto rendezvous = reprise::rendezvous_from_environment();
  TORCH_CHECK(!rendezvous || rendezvous->size == 1,
              command.get_name(),
              ": ",
              rendezvous->size,
              " processes would write the same files; run it once");
}

int run(const std::vector<std::string>& words) {
  CLI::App app{"Reprise: post-training of language models, with activation checkpointing."};
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);
  reprise::app::take_last_of_repeated_flags(app);
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
  reprise::app::add_export(app);
  reprise::app::add_merge(app);
  reprise::app::add_demo(app);
  for (const char* name : {"init", "import", "export", "merge"}) {
    auto* command = app.get_subcommand(name);
    command->preparse_callback([command](size_t) { check_runs_once(*command); });
  }
  app.parse_complete_callback([&app] {
    for (const std::string& note :
         reprise::app::notes_on_repeated_flags(*app.get_subcommands().front())) {
      std::cerr << note << "\n";
    }
  });
  if (const auto help = reprise::app::requested_help(app, words)) {
    std::cout << *help << std::flush;
    return 0;
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 takes them
  } catch (const CLI::ParseError& error) {
    return reprise::app::print_parse_error(app, error);
  }
  std::cout.flush();
  TORCH_CHECK(std::cout.good(), "standard output: could not be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  reprise::end_on_mapped_file_faults();
  // The program does not link CUDA. LibTorch's CUDA library is loaded if it is installed, before
  // the first use of LibTorch.
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  const reprise::app::TerminalGuard shown_output(std::cout, STDOUT_FILENO);
  const reprise::app::TerminalGuard shown_errors(std::cerr, STDERR_FILENO);
  try {
    return run(reprise::app::with_separator({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "reprise: " << reprise::app::shown_error(error) << "\n";
  }
  return 1;
}
