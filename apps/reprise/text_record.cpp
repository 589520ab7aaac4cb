#include "reprise/text_record.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace reprise::app {

namespace {

TokenIds read_ids(const Json& value) {
  TORCH_CHECK(value.is_array(), "\"input_ids\": expected an array of ids, found ", kind_of(value));
  TokenIds ids;
  ids.reserve(value.size());
  for (const auto& id : value) {
    TORCH_CHECK(
        id.is_number_integer(), "\"input_ids\": expected whole numbers, found ", kind_of(id));
    ids.push_back(id.get<int64_t>());
    TORCH_CHECK(ids.back() >= 0, "\"input_ids\": expected ids from 0, found ", id.dump());
  }
  return ids;
}

TokenizedText render(const Json& record, const Tokenizer& tokenizer, bool add_generation_prompt) {
  Json variables = Json::object();
  if (record.contains("chat_template_kwargs")) {
    variables = record["chat_template_kwargs"];
    TORCH_CHECK(variables.is_object(),
                "\"chat_template_kwargs\": expected an object, found ",
                kind_of(variables));
  }
  if (record.contains("tools")) {
    variables["tools"] = record["tools"];
  }
  variables["add_generation_prompt"] = add_generation_prompt;
  if (record.contains("add_generation_prompt")) {
    const auto& value = record["add_generation_prompt"];
    TORCH_CHECK(value.is_boolean(),
                "\"add_generation_prompt\": expected true or false, found ",
                kind_of(value));
    variables["add_generation_prompt"] = value;
  }
  const auto& messages = record["messages"];
  TORCH_CHECK(messages.is_array(), "\"messages\": expected an array, found ", kind_of(messages));
  auto text = tokenizer.render_chat(messages, variables).text;
  // The template has written the special tokens.
  auto ids = tokenizer.encode(text, {.add_special_tokens = false}).ids;
  return {std::move(ids), std::move(text)};
}

}  // namespace

TokenizedText tokenize_record(const Json& record,
                              const Tokenizer* tokenizer,
                              const RecordOptions& options) {
  const std::string text_field = record.contains("text") ? "text" : options.text_field;
  const std::set<std::string> fields = {options.text_field, "text", "messages", "input_ids"};
  const auto found = std::count_if(
      fields.begin(), fields.end(), [&](const auto& field) { return record.contains(field); });
  TORCH_CHECK(found == 1,
              "expected one of \"",
              options.text_field,
              "\", \"messages\" and \"input_ids\", found ",
              found == 0 ? "none" : "several");
  if (record.contains("input_ids")) {
    auto ids = read_ids(record["input_ids"]);
    auto text = tokenizer != nullptr ? tokenizer->decode(ids) : std::string();
    return {std::move(ids), std::move(text)};
  }
  TORCH_CHECK(tokenizer != nullptr, "the model has no tokenizer: give \"input_ids\"");
  if (record.contains("messages")) {
    return render(record, *tokenizer, options.add_generation_prompt);
  }
  const auto& text = record[text_field];
  TORCH_CHECK(text.is_string(), "\"", text_field, "\": expected a string, found ", kind_of(text));
  auto ids = tokenizer
                 ->encode(text.get_ref<const std::string&>(),
                          {.add_special_tokens = options.add_special_tokens})
                 .ids;
  auto decoded = tokenizer->decode(ids);
  return {std::move(ids), std::move(decoded)};
}

void check_ids(const TokenIds& ids, const ModelConfig& config) {
  for (const int64_t id : ids) {
    TORCH_CHECK(id >= 0 && id < config.vocabulary,
                "expected ids from 0 to ",
                config.vocabulary - 1,
                ", found ",
                id);
  }
  const bool has_learned_positions = config.has_learned_positions;
  TORCH_CHECK(!has_learned_positions || static_cast<int64_t>(ids.size()) <= config.max_positions,
              "a text of ",
              ids.size(),
              " tokens: this model has ",
              config.max_positions,
              " learned positions");
}

}  // namespace reprise::app
