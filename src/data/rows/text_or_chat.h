// A value of a row that is plain text or a chat: a prompt, a completion or a whole conversation.
//
// Messages of a chat are normalised to "role" and "content". Files may also use "from" with "value"
// (ShareGPT) or with "content" (ColossalAI).
#pragma once

#include <reprise/io/json.h>

#include "data/rows/row_fields.h"

#include <string>
#include <string_view>
#include <utility>

namespace reprise::data {

struct TextOrChat {
  bool is_chat = false;
  std::string text;  ///< empty for a chat
  Json messages = Json::array();
};

TextOrChat make_text(std::string text);
TextOrChat make_chat(Json messages);

/// Reads a string, a list of messages or a single message. An empty string is accepted, an empty
/// list is not. `name` is for error messages.
TextOrChat read_text_or_chat(const Json& value, const std::string& name);

/// The same for a key of a row, where an empty string is refused too.
TextOrChat read_text_or_chat(const RowFields& row, std::string_view role);

/// The same for a prompt, which may be an empty string. Text replaces the {} in `input_template`,
/// if that is not empty.
TextOrChat read_prompt(const RowFields& row,
                       std::string_view role,
                       const std::string& input_template);

/// Splits a conversation into the messages before the last one, and the last one. Throws if that is
/// not the assistant's or is the only message. `name` is for error messages.
std::pair<TextOrChat, TextOrChat> split_last_turn(const TextOrChat& chat, const std::string& name);

/// Throws unless both are text or both are chats.
TextOrChat concatenate(const TextOrChat& first, const TextOrChat& second);

/// ", as chat" or ", as text", for descriptions of a row.
std::string format_suffix(const TextOrChat& content);

/// Variables that a row sets for its chat template: "tools" (a list, or JSON text of one) and all
/// of "chat_template_kwargs".
Json template_variables(const RowFields& row);

}  // namespace reprise::data
