// `reprise merge`: merges a LoRA adapter into the weights of its base model.
#include "reprise/commands.h"
#include "reprise/device.h"
#include "reprise/model_options.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace reprise::app {

namespace {

struct MergeOptions {
  ModelOptions model;
  std::filesystem::path output;
};

// The head that the adapter was trained with. The adapter may contain one that the base lacks.
HeadKind head_of(const LoraConfig& adapter, const ModelConfig& base) {
  if (adapter.task_type == "SEQ_CLS" || base.architecture.ends_with("ForSequenceClassification")) {
    return HeadKind::Score;
  }
  if (adapter.task_type == "TOKEN_CLS" || base.architecture.ends_with("ForTokenClassification")) {
    return HeadKind::TokenClasses;
  }
  return HeadKind::CausalLm;
}

void run_merge(const MergeOptions& options) {
  const auto& source = options.model.model;
  AtomicFolder output(options.output);
  LoadOptions load;
  load.dtype = chosen_dtype(options.model.dtype);
  load.device = choose_device(options.model.device);
  load.head = head_of(LoraConfig::read(options.model.adapter), ModelConfig::read(source));
  const auto loaded = load_model(source, load);
  print_warnings(loaded.warnings);
  load_adapter(*loaded.model, options.model.adapter);
  merge_lora(*loaded.model);
  save_model(*loaded.model, output.path(), {.source = source});
  output.commit();
  std::cerr << "merged " << options.model.adapter.string() << " into " << source.string() << ": "
            << options.output.string() << "\n";
}

}  // namespace

void add_merge(CLI::App& app) {
  auto options = std::make_shared<MergeOptions>();
  auto* command = app.add_subcommand("merge", "Merge a LoRA adapter into its base model.");
  add_model_options(*command, options->model);
  command->get_option("--adapter")->required();
  command->add_option("--output", options->output, "Output folder, new or empty")
      ->required()
      ->type_name("DIR");
  command->callback([options] { run_merge(*options); });
}

}  // namespace reprise::app
