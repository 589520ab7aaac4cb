// Reads messages with any of the accepted key names and checks their content. Other keys of a
// message (tool_calls, reasoning_content, ...) are kept, since templates read them.
#include "data/rows/text_or_chat.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise::data {
namespace {

/// Maps the role names of ShareGPT; other names are kept.
std::string usual_role(const std::string& from) {
  if (from == "human") {
    return "user";
  }
  for (const char* model : {"gpt", "chatgpt", "bing", "bard"}) {
    if (from == model) {
      return "assistant";
    }
  }
  return from;
}

void check_content(const Json& message, const std::string& name) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    TORCH_CHECK(message.contains("tool_calls"),
                name,
                " has no content (or \"value\"), which only a message with tool_calls may lack");
    return;
  }
  TORCH_CHECK(content->is_string() || content->is_array(),
              name,
              ": expected a string as content, found ",
              kind_of(*content));
  if (content->is_array()) {
    for (const Json& part : *content) {
      TORCH_CHECK(part.is_object() && part.value("type", Json()) == "text" &&
                      part.value("text", Json()).is_string(),
                  name,
                  ": content in parts must be text only: {\"type\": \"text\", \"text\": "
                  "...}");
    }
  }
}

/// Returns the message with "role" and "content", and its other keys unchanged.
Json read_message(const Json& message, const std::string& name) {
  TORCH_CHECK(message.is_object(),
              name,
              ": expected a message such as {\"role\": \"user\", \"content\": \"...\"}, found ",
              kind_of(message));
  const bool has_from = message.contains("from") && !message.contains("role");
  const bool has_value = message.contains("value") && !message.contains("content");
  Json result = Json::object();
  for (const auto& [key, value] : message.items()) {
    result[has_from && key == "from"     ? "role"
           : has_value && key == "value" ? "content"
                                         : key] = value;
  }
  const auto role = result.find("role");
  TORCH_CHECK(role != result.end() && role->is_string() && *role != "",
              name,
              ": expected a role (or \"from\") that is a string, such as \"user\"");
  if (has_from) {
    *role = usual_role(role->get<std::string>());
  }
  check_content(result, name);
  return result;
}

Json parse_tools(const RowFields& row) {
  const Json& tools = row.value("tools");
  Json parsed =
      tools.is_string() ? parse_json(tools.get_ref<const std::string&>(), "tools") : tools;
  TORCH_CHECK(parsed.is_array() || parsed.is_null(),
              row.name("tools"),
              ": expected a list of tools or its JSON text, found ",
              kind_of(parsed));
  return parsed;
}

}  // namespace

TextOrChat make_text(std::string text) {
  TextOrChat content;
  content.text = std::move(text);
  return content;
}

TextOrChat make_chat(Json messages) {
  TextOrChat content;
  content.is_chat = true;
  content.messages = std::move(messages);
  return content;
}

TextOrChat read_text_or_chat(const Json& value, const std::string& name) {
  if (value.is_string()) {
    return make_text(value.get<std::string>());
  }
  if (value.is_object()) {
    return make_chat(Json::array({read_message(value, name)}));
  }
  TORCH_CHECK(
      value.is_array(), name, ": expected a string or a list of messages, found ", kind_of(value));
  TORCH_CHECK(!value.empty(), name, " is an empty list");
  Json messages = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    messages.push_back(read_message(value[i], name + "[" + std::to_string(i) + "]"));
  }
  return make_chat(std::move(messages));
}

TextOrChat read_text_or_chat(const RowFields& row, std::string_view role) {
  TextOrChat content = read_text_or_chat(row.value(role), row.name(role));
  TORCH_CHECK(content.is_chat || !content.text.empty(), row.name(role), " is an empty string");
  return content;
}

TextOrChat read_prompt(const RowFields& row,
                       std::string_view role,
                       const std::string& input_template) {
  TextOrChat prompt = read_text_or_chat(row.value(role), row.name(role));
  if (!input_template.empty()) {
    TORCH_CHECK(!prompt.is_chat,
                row.name(role),
                " is a chat, which a chat template renders; input_template is for plain text");
    prompt.text = std::string(input_template).replace(input_template.find("{}"), 2, prompt.text);
  }
  return prompt;
}

std::pair<TextOrChat, TextOrChat> split_last_turn(const TextOrChat& chat, const std::string& name) {
  const Json& last = chat.messages.back();
  TORCH_CHECK(last["role"] == "assistant",
              name,
              ": the last message is trained on, so it must be the assistant's; its role is ",
              excerpt(last["role"]));
  TORCH_CHECK(chat.messages.size() > 1, name, " has only one message, so there is no prompt");
  Json before = chat.messages;
  before.erase(before.size() - 1);
  return {make_chat(std::move(before)), make_chat(Json::array({last}))};
}

TextOrChat concatenate(const TextOrChat& first, const TextOrChat& second) {
  TORCH_CHECK(first.is_chat == second.is_chat,
              "the prompt is ",
              first.is_chat ? "a chat" : "text",
              " and what follows it is ",
              second.is_chat ? "a chat" : "text",
              "; both must be of the same kind");
  TextOrChat both = first;
  both.text += second.text;
  for (const Json& message : second.messages) {
    both.messages.push_back(message);
  }
  return both;
}

std::string format_suffix(const TextOrChat& content) {
  return content.is_chat ? ", as chat" : ", as text";
}

Json template_variables(const RowFields& row) {
  Json variables = Json::object();
  if (row.has("tools")) {
    variables["tools"] = parse_tools(row);
  }
  if (!row.has("chat_template_kwargs")) {
    return variables;
  }
  const Json& given = row.value("chat_template_kwargs");
  if (!given.is_object()) {
    row.refuse("chat_template_kwargs", "an object of variables");
  }
  constexpr std::array kOurs = {
      "messages", "chat_template", "add_generation_prompt", "continue_final_message"};
  for (const auto& [name, value] : given.items()) {
    for (const char* ours : kOurs) {
      TORCH_CHECK(name != ours,
                  row.name("chat_template_kwargs"),
                  " has \"",
                  name,
                  "\", which a row cannot set");
    }
    variables[name] = value;
  }
  return variables;
}

}  // namespace reprise::data
