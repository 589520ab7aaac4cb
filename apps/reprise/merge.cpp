// `reprise merge`: merges a LoRA adapter into the weights of its base model.
#include "reprise/adapter_folder.h"
#include "reprise/commands.h"
#include "reprise/device.h"
#include "reprise/model_options.h"
#include "reprise/reward_pad.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>
#include <reprise/model/quantization.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  ModelOptions model;
  fs::path output;
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

// transformers must know the pad token by which the merged model's batches are padded. Where that
// is also the end token, the place of a score depends on how the adapter was trained.
void name_pad_token(Model& model, const fs::path& source) {
  if (!has_tokenizer(source)) {
    return;
  }
  const auto tokenizer = Tokenizer::open(source);
  const auto& special = tokenizer->special_tokens();
  if (special.pad && special.pad != special.eos) {
    set_reward_pad(model, *tokenizer, {});
    return;
  }
  print_warnings(
      {"the tokenizer has no pad token besides its end token, so pad_token_id in "
       "config.json stays as it is in the base model. transformers reads a score at the "
       "last token that is not pad_token_id: set it to null if the adapter was trained "
       "at the last token (reprise rm), to the end token if before it (TRL)"});
}

void run_merge(const MergeOptions& given) {
  const MergeOptions options{with_folders(given.model), given.output};
  const auto& source = options.model.model;
  TORCH_CHECK(!options.model.adapter.empty(),
              source.string(),
              ": is no adapter's folder. Give an adapter as --model, or as --adapter");
  AtomicFolder output(options.output);
  LoadOptions load;
  load.dtype = chosen_dtype(options.model.dtype);
  load.device = choose_device(options.model.device);
  load.head = head_of(LoraConfig::read(options.model.adapter),
                      ModelConfig::read(source, chosen_part(options.model.text_only)));
  load.part = chosen_part(options.model.text_only);
  const auto loaded = load_model(source, load);
  print_warnings(loaded.warnings);
  if (is_quantized(*loaded.model)) {  // what the adapter was trained on, in the type of the rest
    dequantize_model(*loaded.model, loaded.model->dtype());
  }
  load_adapter(*loaded.model, options.model.adapter);
  merge_lora(*loaded.model);
  if (load.head == HeadKind::Score) {
    name_pad_token(*loaded.model,
                   tokenizer_folder({source.string(), options.model.adapter.string()}));
  }
  save_model(*loaded.model, output.path(), {.source = source});
  const fs::path texts = tokenizer_folder({source.string(), options.model.adapter.string()});
  if (texts != source) {
    copy_tokenizer(texts, output.path());
  }
  output.commit();
  std::cerr << "merged " << options.model.adapter.string() << " into " << source.string() << ": "
            << options.output.string() << "\n";
}

}  // namespace

void add_merge(CLI::App& app) {
  auto options = std::make_shared<MergeOptions>();
  auto* command = app.add_subcommand("merge", "Merge a LoRA adapter into its base model.");
  add_model_options(*command, options->model);
  command->add_option("--output", options->output, "Output folder, new or empty")
      ->required()
      ->type_name("DIR");
  command->callback([options] { run_merge(*options); });
}

}  // namespace reprise::app
