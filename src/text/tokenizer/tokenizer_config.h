// The files beside a tokenizer: special tokens, added tokens and chat templates.
#pragma once

#include <reprise/io/json.h>

#include "text/tokenizer/added_tokens.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace reprise::text {

struct TemplateText {
  std::string text;
  std::string source;  ///< its name in error messages
};

/// The parsed files; null for missing ones.
struct TokenizerFiles {
  std::string folder;  ///< for error messages
  Json config;         ///< tokenizer_config.json
  Json special_tokens_map;
  Json added_tokens;
  std::map<std::string, TemplateText> templates;  ///< templates in separate files, by name

  std::string source(const char* file) const;
};

/// Those of a model's folder.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

struct TokenizerConfig {
  Json variables = Json::object();  ///< for templates: bos_token and the like
  bool is_complete = false;         ///< see Note [Which file counts]
  /// Tokens of added_tokens_decoder, by id. Their properties override those in tokenizer.json.
  std::vector<AddedToken> overriding;
  /// Tokens to add after all others, in this order, unless they are already added tokens.
  std::vector<AddedToken> missing;
  std::map<std::string, TemplateText> templates;  ///< by name; a single one is "default"
};

/// Throws c10::Error with the file and the field that cannot be read.
TokenizerConfig read_tokenizer_config(const TokenizerFiles& files);

/// Reads "chat_template" of an object: a text, {name: text} or [{"name": .., "template": ..}].
std::map<std::string, TemplateText> read_templates(const JsonFields& fields);

}  // namespace reprise::text
