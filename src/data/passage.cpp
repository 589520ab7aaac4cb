// Messages of all spellings to role and content, and what may stand in them. Other keys of a
// message (tool_calls, reasoning_content, ...) pass through, since templates read them.
#include "data/passage.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise::detail {
namespace {

/// ShareGPT's names of those who speak; others mean themselves.
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
                  ": content given in parts must be text alone: {\"type\": \"text\", \"text\": "
                  "...}");
    }
  }
}

/// The same message with "role" and "content", other keys as they stand.
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

Passage text_passage(std::string text) {
  Passage passage;
  passage.text = std::move(text);
  return passage;
}

Passage chat_passage(Json messages) {
  Passage passage;
  passage.is_chat = true;
  passage.messages = std::move(messages);
  return passage;
}

Passage read_passage(const Json& value, const std::string& name) {
  if (value.is_string()) {
    return text_passage(value.get<std::string>());
  }
  if (value.is_object()) {
    return chat_passage(Json::array({read_message(value, name)}));
  }
  TORCH_CHECK(
      value.is_array(), name, ": expected a string or a list of messages, found ", kind_of(value));
  TORCH_CHECK(!value.empty(), name, " is an empty list");
  Json messages = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    messages.push_back(read_message(value[i], name + "[" + std::to_string(i) + "]"));
  }
  return chat_passage(std::move(messages));
}

Passage read_passage(const RowFields& row, std::string_view role) {
  Passage passage = read_passage(row.value(role), row.name(role));
  TORCH_CHECK(passage.is_chat || !passage.text.empty(), row.name(role), " is an empty string");
  return passage;
}

Passage read_prompt(const RowFields& row,
                    std::string_view role,
                    const std::string& input_template) {
  Passage prompt = read_passage(row.value(role), row.name(role));
  if (!input_template.empty()) {
    TORCH_CHECK(!prompt.is_chat,
                row.name(role),
                " is a chat, which a chat template renders; input_template is for plain text");
    prompt.text = std::string(input_template).replace(input_template.find("{}"), 2, prompt.text);
  }
  return prompt;
}

std::pair<Passage, Passage> split_last_turn(const Passage& chat, const std::string& name) {
  const Json& last = chat.messages.back();
  TORCH_CHECK(last["role"] == "assistant",
              name,
              ": the last message is what is learnt, so it must be the assistant's; it is of ",
              shown(last["role"]));
  TORCH_CHECK(chat.messages.size() > 1, name, " has one message only, so there is no prompt");
  Json before = chat.messages;
  before.erase(before.size() - 1);
  return {chat_passage(std::move(before)), chat_passage(Json::array({last}))};
}

Passage joined(const Passage& first, const Passage& second) {
  TORCH_CHECK(first.is_chat == second.is_chat,
              "the prompt is ",
              first.is_chat ? "a chat" : "text",
              " and what follows it is ",
              second.is_chat ? "a chat" : "text",
              "; both must be the same");
  Passage both = first;
  both.text += second.text;
  for (const Json& message : second.messages) {
    both.messages.push_back(message);
  }
  return both;
}

std::string form_of(const Passage& passage) {
  return passage.is_chat ? ", as chat" : ", as text";
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
                  "\", which is not the row's to choose");
    }
    variables[name] = value;
  }
  return variables;
}

}  // namespace reprise::detail
