// `reprise export`: writes a model as one GGUF file for llama.cpp.
#include "reprise/commands.h"
#include "reprise/model_options.h"

#include <reprise/convert/gguf.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace reprise::app {

namespace {

struct ExportCommand {
  std::filesystem::path folder;
  std::filesystem::path file;
  std::string type;
};

void run_export(const ExportCommand& options) {
  TORCH_CHECK(options.file.extension() == ".gguf",
              options.file.string(),
              ": expected a name that ends in .gguf, the format that is written");
  TORCH_CHECK(!std::filesystem::exists(options.file),
              options.file.string(),
              ": exists; nothing is overwritten");
  const auto report = export_gguf(options.folder, options.file, {.type = options.type});
  print_warnings(report.warnings);
  std::cerr << options.file.string() << ": " << report.tensors << " tensors, " << report.parameters
            << " parameters, " << report.bytes << " bytes\n";
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<ExportCommand>();
  auto* command = app.add_subcommand("export", "Write a model as a GGUF file for llama.cpp.");
  command->add_option("folder", options->folder, "Model folder")->required()->type_name("DIR");
  command->add_option("file", options->file, "Output file, new, *.gguf")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--type",
                   options->type,
                   "Type of the matrices: f32, f16, bf16 or q8_0 (default: as in the folder)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->type_name("NAME");
  command->callback([options] { run_export(*options); });
}

}  // namespace reprise::app
