// Special tokens and chat templates, with the precedence of transformers 5.
#include "text/tokenizer/tokenizer_config.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace reprise::text {
namespace {

constexpr std::array<const char*, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// Lookup by name is linear.
constexpr size_t kMaxNames = 4096;

/// A special token is "<s>" or {"content": "<s>", ...}.
AddedToken read_special_token(const JsonFields& fields, const std::string& key, const Json& value) {
  if (value.is_string()) {
    return {.content = value.get<std::string>(), .normalized = false, .special = true};
  }
  if (!value.is_object()) {
    fields.refuse(key, "a string or an object with content", describe(value));
  }
  const std::string path = fields.path().empty() ? key : fields.path() + "." + key;
  return read_added_token(JsonFields(value, fields.source(), path));
}

/// Tokens by name, in the order of first appearance.
class NamedTokens {
 public:
  void read(const JsonFields& fields, const std::string& key, const Json& value) {
    if (value.is_null()) {
      return;
    }
    AddedToken token = read_special_token(fields, key, value);
    token.special = true;
    const auto known = std::find_if(
        tokens_.begin(), tokens_.end(), [&](const auto& entry) { return entry.first == key; });
    if (known != tokens_.end()) {
      known->second = std::move(token);
      return;
    }
    if (tokens_.size() == kMaxNames) {
      fields.refuse(key, "at most " + std::to_string(kMaxNames) + " named tokens", "more");
    }
    tokens_.emplace_back(key, std::move(token));
  }

  const std::vector<std::pair<std::string, AddedToken>>& tokens() const { return tokens_; }

 private:
  std::vector<std::pair<std::string, AddedToken>> tokens_;
};

/// Other *_token keys, such as image_token of multimodal models.
void read_other_names(const JsonFields& fields, const Json& object, NamedTokens& named) {
  for (const auto& [key, value] : object.items()) {
    const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
    if (key.ends_with("_token") && is_token) {
      named.read(fields, key, value);
    }
  }
}

/// Reads an object {name: token} or a list of tokens under `key`.
void read_extra(const JsonFields& fields,
                const std::string& key,
                NamedTokens& named,
                std::vector<AddedToken>& extra) {
  const Json& value = fields.value(key);
  if (value.is_object()) {
    const JsonFields entries = fields.object(key);
    for (const auto& entry : value.items()) {
      named.read(entries, entry.key(), entry.value());
    }
    return;
  }
  size_t index = 0;
  for (const Json& token : fields.array(key)) {
    extra.push_back(read_special_token(fields, key + "[" + std::to_string(index++) + "]", token));
  }
}

/// Reads added_tokens.json, which does not say which of its tokens are special.
std::vector<AddedToken> read_older_tokens(const TokenizerFiles& files,
                                          const std::vector<AddedToken>& special) {
  std::unordered_set<std::string_view> contents;
  for (const AddedToken& token : special) {
    contents.insert(token.content);
  }
  std::vector<AddedToken> tokens;
  for (auto& [id, token] :
       read_added_tokens_file(files.added_tokens, files.source("added_tokens.json"))) {
    token.special = contents.contains(token.content);
    token.normalized = !token.special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

struct SpecialTokenFiles {
  std::optional<JsonFields> config;
  std::optional<JsonFields> map;  ///< only if it applies
};

void read_names(const SpecialTokenFiles& fields, const TokenizerFiles& files, NamedTokens& named) {
  for (const char* name : kNamedTokens) {
    for (const auto& file : {fields.config, fields.map}) {
      if (file && file->has(name)) {
        named.read(*file, name, file->value(name));
      }
    }
  }
  if (fields.config) {
    read_other_names(*fields.config, files.config, named);
  }
  if (fields.map) {
    read_other_names(*fields.map, files.special_tokens_map, named);
  }
}

std::vector<AddedToken> read_unnamed(const SpecialTokenFiles& fields, NamedTokens& named) {
  std::vector<AddedToken> extra;
  constexpr const char* kNew = "extra_special_tokens";
  constexpr const char* kOld = "additional_special_tokens";
  bool found = false;
  for (const char* key : {kNew, kOld}) {
    if (!found && fields.config && fields.config->has(key)) {
      read_extra(*fields.config, key, named, extra);
      found = true;
    }
  }
  if (fields.map && fields.map->has(kNew)) {
    read_extra(*fields.map, kNew, named, extra);
    found = true;
  }
  if (!found && fields.map && fields.map->has(kOld)) {
    read_extra(*fields.map, kOld, named, extra);
  }
  return extra;
}

}  // namespace

std::string TokenizerFiles::source(const char* file) const {
  return (std::filesystem::path(folder) / file).string();
}

// Note [Which file counts]
// A tokenizer_config.json with added_tokens_decoder is complete: it replaces the older files
// special_tokens_map.json and added_tokens.json. Without it, special_tokens_map.json takes
// precedence over tokenizer_config.json. A special token missing from the vocabulary is added with
// the next free id.
TokenizerConfig read_tokenizer_config(const TokenizerFiles& files) {
  TokenizerConfig result;
  SpecialTokenFiles fields;
  if (!files.config.is_null()) {
    fields.config.emplace(files.config, files.source("tokenizer_config.json"), "");
  }
  std::optional<JsonFields> map;
  if (!files.special_tokens_map.is_null()) {
    map.emplace(files.special_tokens_map, files.source("special_tokens_map.json"), "");
  }
  result.is_complete = fields.config && fields.config->has("added_tokens_decoder");
  if (result.is_complete) {
    for (auto& [id, token] : read_added_tokens_decoder(*fields.config)) {
      result.overriding.push_back(std::move(token));
    }
  } else {
    fields.map = map;
  }
  NamedTokens named;
  read_names(fields, files, named);
  const std::vector<AddedToken> unnamed = read_unnamed(fields, named);
  std::vector<AddedToken> special;
  for (const auto& [name, token] : named.tokens()) {
    result.variables[name] = token.content;
    special.push_back(token);
  }
  special.insert(special.end(), unnamed.begin(), unnamed.end());
  if (!result.is_complete) {
    result.missing = read_older_tokens(files, special);
  }
  result.missing.insert(result.missing.end(), special.begin(), special.end());
  result.templates = files.templates;
  if (result.templates.empty() && fields.config) {
    result.templates = read_templates(*fields.config);
  }
  return result;
}

std::map<std::string, TemplateText> read_templates(const JsonFields& fields) {
  constexpr const char* kField = "chat_template";
  std::map<std::string, TemplateText> templates;
  if (!fields.has(kField)) {
    return templates;
  }
  const std::string where = fields.source() + ": field " + kField;
  const Json& value = fields.value(kField);
  if (value.is_string()) {
    templates["default"] = {value.get<std::string>(), where};
  } else if (value.is_object()) {
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) {
        fields.refuse(kField + ("." + name), "a string", describe(text));
      }
      TemplateText& entry = templates[name];
      entry = {text.get<std::string>(), where};
      entry.source.append(".").append(name);
    }
  } else if (value.is_array()) {
    for (const JsonFields& entry : fields.objects(kField)) {
      templates[entry.string("name")] = {entry.string("template"),
                                         fields.source() + ": field " + entry.path()};
    }
  } else {
    fields.refuse(
        kField, "a string, an object {name: text} or a list of {name, template}", describe(value));
  }
  return templates;
}

}  // namespace reprise::text
