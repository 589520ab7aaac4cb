// `reprise import`: converts a GGUF file to a Hugging Face folder.
#include "reprise/commands.h"
#include "reprise/model_options.h"

#include <reprise/convert/gguf.h>
#include <reprise/io/atomic_folder.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace reprise::app {

namespace {

struct ImportCommand {
  std::filesystem::path file;
  std::filesystem::path folder;
  std::string dtype = "float32";
};

void run_import(const ImportCommand& options) {
  AtomicFolder output(options.folder);
  const auto report =
      import_gguf(options.file, output.path(), {.dtype = *chosen_dtype(options.dtype)});
  print_warnings(report.warnings);
  output.commit();
  std::cerr << options.folder.string() << ": " << report.tensors << " tensors, "
            << report.parameters << " parameters, " << report.bytes << " bytes in " << options.dtype
            << "\n";
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<ImportCommand>();
  auto* command = app.add_subcommand("import", "Convert a GGUF file to a Hugging Face folder.");
  command->add_option("file", options->file, "GGUF file")->required()->type_name("FILE");
  command->add_option("folder", options->folder, "Output folder, new or empty")
      ->required()
      ->type_name("DIR");
  add_dtype_option(*command, options->dtype, "Data type of the weights to write");
  command->get_option("--dtype")->capture_default_str();
  command->callback([options] { run_import(*options); });
}

}  // namespace reprise::app
