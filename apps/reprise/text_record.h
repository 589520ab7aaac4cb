// What a line of input says, as ids: a text, a conversation, or the ids themselves.
#pragma once

#include <reprise/io/json.h>
#include <reprise/model/config.h>
#include <reprise/text/tokenizer.h>

#include <string>

namespace reprise::app {

struct TokenizedText {
  TokenIds ids;
  std::string text;  ///< a rendered conversation, or the ids decoded
};

struct RecordOptions {
  const char* text_field = "text";     ///< the field that holds plain text; "text" always may
  bool add_special_tokens = true;      ///< to plain text; templates write their own
  bool add_generation_prompt = false;  ///< to conversations that do not say
};

/// Reads {`text_field`: ..} or {"text": ..} or {"messages": [..]} (with "tools",
/// "add_generation_prompt" and "chat_template_kwargs" for the template) or {"input_ids": [..]};
/// other fields are not looked at. Throws if it is none of these, or several. Without a tokenizer
/// (null) only ids can be read, and have no text.
TokenizedText tokenize_record(const Json& record,
                              const Tokenizer* tokenizer,
                              const RecordOptions& options);

/// Throws if the model cannot take these ids: an id it does not have, or more than its learned
/// positions.
void check_ids(const TokenIds& ids, const ModelConfig& config);

}  // namespace reprise::app
