// `reprise tokenize`: converts texts and conversations to token ids.
#include "reprise/adapter_folder.h"
#include "reprise/commands.h"
#include "reprise/json_lines.h"
#include "reprise/model_options.h"
#include "reprise/text_record.h"

#include <filesystem>
#include <iostream>
#include <memory>

namespace reprise::app {

namespace {

struct TokenizeOptions {
  std::filesystem::path model;
  bool no_special_tokens = false;
};

void run_tokenize(const TokenizeOptions& options) {
  const auto folders = has_tokenizer(options.model)
                           ? ModelFolders{options.model.string(), ""}
                           : model_folders({options.model.string(), ""}, "");
  const auto tokenizer = Tokenizer::open(folders.model);
  JsonLineReader lines(std::cin);
  while (const auto line = lines.next()) {
    const auto text = at_line(line->number, [&] {
      return tokenize_record(
          line->value, tokenizer.get(), {.add_special_tokens = !options.no_special_tokens});
    });
    print_json_line({{"input_ids", text.ids}, {"text", text.text}});
  }
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  auto* command = app.add_subcommand("tokenize", "Convert texts and conversations to token ids.");
  command->footer(
      "Reads JSON lines: {\"text\": ..}, or {\"messages\": [..]} with \"tools\" and "
      "\"add_generation_prompt\".\n"
      "Writes {\"input_ids\": [..], \"text\": ..} for each: the conversation as the chat template "
      "renders it, or the decoded ids.");
  command->add_option("--model", options->model, "Folder of the model or tokenizer")
      ->required()
      ->type_name("DIR");
  command->add_flag("--no_special_tokens",
                    options->no_special_tokens,
                    "Do not add special tokens to plain text, such as <s>");
  command->callback([options] { run_tokenize(*options); });
}

}  // namespace reprise::app
