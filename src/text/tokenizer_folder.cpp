// Tokenizer::open: which files of a model folder say what.
#include <reprise/io/file.h>
#include <reprise/text/tokenizer.h>

#include "text/json_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"

#include <c10/util/Exception.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;

Json read_optional(const fs::path& path) {
  return fs::exists(path) ? read_json(path) : Json();
}

/// tokenizer_config.json with the chat template that counts: chat_template.jinja before
/// chat_template.json before what the config itself has.
Json read_config(const fs::path& folder) {
  Json config = read_optional(folder / "tokenizer_config.json");
  if (config.is_null()) {
    config = Json::object();
  }
  TORCH_CHECK(config.is_object(),
              "[tokenizer] file ",
              (folder / "tokenizer_config.json").string(),
              ": expected an object, found ",
              kind_of(config));
  if (fs::exists(folder / "chat_template.jinja")) {
    config["chat_template"] = read_file(folder / "chat_template.jinja");
  } else if (fs::exists(folder / "chat_template.json")) {
    const Json file = read_json(folder / "chat_template.json");
    const bool has_template = file.is_object() && file.contains("chat_template");
    TORCH_CHECK(has_template,
                "[tokenizer] file ",
                (folder / "chat_template.json").string(),
                ": expected the field chat_template");
    config["chat_template"] = file["chat_template"];
  }
  return config;
}

std::shared_ptr<Tokenizer> open_files(const fs::path& folder, const Json& config) {
  const fs::path json = folder / "tokenizer.json";
  if (fs::exists(json)) {
    return std::make_shared<detail::JsonTokenizer>(read_json(json), json.string());
  }
  const fs::path model = folder / "tokenizer.model";
  TORCH_CHECK(fs::exists(model),
              "[tokenizer] folder ",
              folder.string(),
              ": expected tokenizer.json or tokenizer.model, found neither");
  detail::SentencePieceSettings settings =
      detail::is_chatglm(config)
          ? detail::chatglm_settings()
          : detail::llama_settings(config, read_optional(folder / "added_tokens.json"));
  return detail::make_sentencepiece_tokenizer(read_file(model), model.string(), settings);
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::open(const fs::path& folder) {
  const Json config = read_config(folder);
  const std::shared_ptr<Tokenizer> tokenizer = open_files(folder, config);
  tokenizer->configure(config, read_optional(folder / "special_tokens_map.json"));
  return tokenizer;
}

}  // namespace reprise
