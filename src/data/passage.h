// A part of a row, as text or as a chat: prompts, completions, whole conversations.
//
// Chats are brought to one form here, messages with "role" and "content", whatever the file calls
// them: "from" with "value" (ShareGPT) or with "content" (ColossalAI) are taken too.
#pragma once

#include <reprise/io/json.h>

#include "data/row_fields.h"

#include <string>
#include <string_view>
#include <utility>

namespace reprise::detail {

struct Passage {
  bool is_chat = false;
  std::string text;  ///< unless it is a chat
  Json messages = Json::array();
};

Passage text_passage(std::string text);
Passage chat_passage(Json messages);

/// A value as a passage: a string, a list of messages, or a single message. `name` is for messages
/// of errors. An empty string is a passage, an empty list is refused.
Passage read_passage(const Json& value, const std::string& name);

/// The passage of a key. Empty texts are refused too, unless it is a prompt: read_prompt.
Passage read_passage(const RowFields& row, std::string_view role);

/// The same for a prompt, which may be empty text; text is put in place of {} in `input_template`,
/// unless that is empty.
Passage read_prompt(const RowFields& row, std::string_view role, const std::string& input_template);

/// A conversation as what leads to its last message, and that message. Throws, calling it `name`,
/// if the last one is not the assistant's or the only one.
std::pair<Passage, Passage> split_last_turn(const Passage& chat, const std::string& name);

/// One after the other; throws unless both are text or both chats.
Passage joined(const Passage& first, const Passage& second);

/// ", as chat" or ", as text", for descriptions.
std::string form_of(const Passage& passage);

/// What a row gives its chat template: "tools" (a list, or a JSON text of one), if any, and all of
/// "chat_template_kwargs".
Json template_variables(const RowFields& row);

}  // namespace reprise::detail
