// What the small files beside a tokenizer say: special tokens, added tokens and chat templates.
#pragma once

#include <reprise/io/json.h>

#include "text/added_tokens.h"

#include <map>
#include <string>
#include <vector>

namespace reprise::detail {

struct TemplateText {
  std::string text;
  std::string source;  ///< how messages call it
};

/// The files as they were read; null where there is none.
struct TokenizerFiles {
  std::string folder;  ///< for messages
  Json config;         ///< tokenizer_config.json
  Json special_tokens_map;
  Json added_tokens;
  std::map<std::string, TemplateText> templates;  ///< those with a file of their own, by name

  std::string source(const char* file) const;
};

struct TokenizerConfig {
  Json variables = Json::object();  ///< what templates know: bos_token and the like, by name
  bool is_complete = false;         ///< see Note [Which file counts]
  /// Tokens of added_tokens_decoder, by id. Their properties count before those in tokenizer.json.
  std::vector<AddedToken> overriding;
  /// Tokens that are added behind all others, in this order, unless they are added tokens already.
  std::vector<AddedToken> missing;
  std::map<std::string, TemplateText> templates;  ///< by name; a single one is "default"
};

/// Throws c10::Error naming file and field of what can not be read.
TokenizerConfig read_tokenizer_config(const TokenizerFiles& files);

/// "chat_template" of an object: a text, {name: text} or [{"name": .., "template": ..}].
std::map<std::string, TemplateText> read_templates(const JsonFields& fields);

}  // namespace reprise::detail
