// Tokenizer::open(): reads the tokenizer files of a model folder.
#include <reprise/io/file.h>
#include <reprise/io/file_format.h>
#include <reprise/text/tokenizer.h>

#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/tokenizer_config.h"

#include <c10/util/Exception.h>

#include <map>
#include <string>

namespace reprise {
namespace {

namespace fs = std::filesystem;

Json read_optional(const fs::path& path) {
  return fs::exists(path) ? read_json(path) : Json();
}

/// chat_template.jinja and additional_chat_templates/*.jinja; if there are none and
/// tokenizer_config.json has no template either, chat_template.json.
std::map<std::string, text::TemplateText> read_template_files(const fs::path& folder,
                                                              const Json& config) {
  std::map<std::string, text::TemplateText> templates;
  const fs::path alone = folder / "chat_template.jinja";
  if (fs::exists(alone)) {
    templates["default"] = {read_file(alone), alone.string()};
  }
  const fs::path additional = folder / "additional_chat_templates";
  if (fs::is_directory(additional)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(additional)) {
      if (entry.path().extension() == ".jinja") {
        templates[entry.path().stem().string()] = {read_file(entry.path()), entry.path().string()};
      }
    }
  }
  const fs::path json = folder / "chat_template.json";
  const bool configured = config.is_object() && config.contains("chat_template");
  if (templates.empty() && !configured && fs::exists(json)) {
    const Json file = read_json(json);
    templates = text::read_templates(text::JsonFields(file, json.string(), ""));
  }
  return templates;
}

std::shared_ptr<Tokenizer> open_files(const fs::path& folder,
                                      const text::TokenizerFiles& files,
                                      const text::TokenizerConfig& config) {
  const fs::path json = folder / "tokenizer.json";
  if (fs::exists(json)) {
    return std::make_shared<text::JsonTokenizer>(read_json(json), json.string(), config);
  }
  const fs::path model = folder / "tokenizer.model";
  TORCH_CHECK(fs::exists(model),
              "[tokenizer] folder ",
              folder.string(),
              ": expected tokenizer.json or tokenizer.model, found neither");
  const text::SentencePieceSettings settings =
      text::is_chatglm(files.config) ? text::chatglm_settings() : text::llama_settings(files);
  return text::make_sentencepiece_tokenizer(read_file(model), model.string(), settings);
}

}  // namespace

text::TokenizerFiles text::read_tokenizer_files(const fs::path& folder) {
  TokenizerFiles files;
  files.folder = folder.string();
  files.config = read_optional(folder / "tokenizer_config.json");
  files.special_tokens_map = read_optional(folder / "special_tokens_map.json");
  files.added_tokens = read_optional(folder / "added_tokens.json");
  files.templates = read_template_files(folder, files.config);
  return files;
}

std::shared_ptr<const Tokenizer> Tokenizer::open(const fs::path& folder) {
  refuse_foreign_model(folder);
  const text::TokenizerFiles files = text::read_tokenizer_files(folder);
  const text::TokenizerConfig config = text::read_tokenizer_config(files);
  const std::shared_ptr<Tokenizer> tokenizer = open_files(folder, files, config);
  tokenizer->configure(config);
  return tokenizer;
}

}  // namespace reprise
