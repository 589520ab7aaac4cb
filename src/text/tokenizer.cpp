// What all tokenizers share: special tokens by name and the chat template.
#include <reprise/text/tokenizer.h>

#include "text/json_fields.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace reprise {
namespace {

constexpr std::array<const char*, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// A special token is written as "<s>" or as {"content": "<s>", ...}.
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return std::nullopt;
}

std::optional<std::string> named_token(const Json& config, const char* name) {
  return config.is_object() && config.contains(name) ? token_text(config[name]) : std::nullopt;
}

/// A string, or a list of {name, template} of which "default" is meant.
std::optional<std::string> default_template(const Json& config) {
  if (!config.is_object() || !config.contains("chat_template") ||
      config["chat_template"].is_null()) {
    return std::nullopt;
  }
  const Json& templates = config["chat_template"];
  if (templates.is_string()) {
    return templates.get<std::string>();
  }
  const detail::JsonFields fields(config, "tokenizer_config.json", "");
  for (const detail::JsonFields& entry : fields.objects("chat_template")) {
    if (entry.string("name") == "default") {
      return entry.string("template");
    }
  }
  return std::nullopt;
}

}  // namespace

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

void Tokenizer::configure(const Json& tokenizer_config, const Json& special_tokens_map) {
  template_variables_ = Json::object();
  for (const char* name : kNamedTokens) {
    auto token = named_token(tokenizer_config, name);
    if (!token) {
      token = named_token(special_tokens_map, name);
    }
    if (token) {
      template_variables_[name] = *token;
    }
  }
  const auto id_of_named = [&](const char* name) -> std::optional<int64_t> {
    return template_variables_.contains(name)
               ? id_of(template_variables_[name].get_ref<const std::string&>())
               : std::nullopt;
  };
  special_tokens_ = {.bos = id_of_named("bos_token"),
                     .eos = id_of_named("eos_token"),
                     .pad = id_of_named("pad_token"),
                     .unk = id_of_named("unk_token")};
  if (const auto text = default_template(tokenizer_config)) {
    chat_template_.emplace(*text);
  }
}

RenderedChat Tokenizer::render_chat(const Json& messages, const Json& variables) const {
  TORCH_CHECK(chat_template_,
              "[tokenizer] this model ships no default chat template: there is neither "
              "chat_template.jinja nor a chat_template in tokenizer_config.json; give the text "
              "itself, or put a template into the model's folder");
  Json all = template_variables_.is_null() ? Json::object() : template_variables_;
  if (variables.is_object()) {
    for (const auto& [name, value] : variables.items()) {
      all[name] = value;
    }
  }
  all["messages"] = messages;
  if (!all.contains("add_generation_prompt")) {
    all["add_generation_prompt"] = false;
  }
  return chat_template_->render(all);
}

Tokenizer::EncodedChat Tokenizer::encode_chat(const Json& messages, const Json& variables) const {
  const RenderedChat chat = render_chat(messages, variables);
  Encoding encoding = encode(chat.text, {.add_special_tokens = false});
  EncodedChat result{std::move(encoding.ids), {}};
  result.generated.reserve(result.ids.size());
  for (const auto& offsets : encoding.offsets) {
    const size_t begin = offsets.first;
    result.generated.push_back(
        std::any_of(chat.generated.begin(), chat.generated.end(), [begin](const auto& range) {
          return range.first <= begin && begin < range.second;
        }));
  }
  return result;
}

}  // namespace reprise
