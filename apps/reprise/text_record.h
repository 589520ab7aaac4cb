// Converts a line of input to token ids: a text, a conversation, or the ids themselves.
#pragma once

#include <reprise/io/json.h>
#include <reprise/model/config.h>
#include <reprise/text/tokenizer.h>

#include <string>

namespace reprise::app {

struct TokenizedText {
  TokenIds ids;
  std::string text;  ///< the rendered conversation, or the decoded ids
};

struct RecordOptions {
  const char* text_field = "text";     ///< field with plain text, besides "text"
  bool add_special_tokens = true;      ///< for plain text only
  bool add_generation_prompt = false;  ///< for conversations that do not specify it
};

/// Reads {`text_field`: ..} or {"text": ..} or {"messages": [..]} (with "tools",
/// "add_generation_prompt" and "chat_template_kwargs" for the template) or {"input_ids": [..]};
/// other fields are ignored. Throws unless there is exactly one of these. Without a tokenizer
/// (null) only ids can be read, and the text is empty.
TokenizedText tokenize_record(const Json& record,
                              const Tokenizer* tokenizer,
                              const RecordOptions& options);

/// Throws for ids outside the model's vocabulary and for more ids than it has learned positions.
void check_ids(const TokenIds& ids, const ModelConfig& config);

}  // namespace reprise::app
