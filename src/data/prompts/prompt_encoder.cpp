// The accepted keys of a prompt in order of precedence, and its tokenisation.
#include "data/prompts/prompt_encoder.h"

#include "data/rows/unused_options.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::data {
namespace {

constexpr std::array<std::string_view, 4> kPromptRoles = {
    "prompt", "messages", "input", "question"};
constexpr std::array<std::string_view, 2> kTemplateRoles = {"tools", "chat_template_kwargs"};

void check_keys(const PromptOptions& options) {
  std::vector<std::string_view> roles(kPromptRoles.begin(), kPromptRoles.end());
  roles.insert(roles.end(), kTemplateRoles.begin(), kTemplateRoles.end());
  for (const auto& [role, name] : options.keys) {
    TORCH_CHECK(std::find(roles.begin(), roles.end(), role) != roles.end(),
                "[prompts] keys: there is no key \"",
                role,
                "\"; names can be given to: ",
                c10::Join(", ", roles));
    TORCH_CHECK(!name.empty(), "[prompts] keys: \"", role, "\" has an empty name");
  }
}

void check_limits(const PromptOptions& options) {
  TORCH_CHECK(options.max_prompt_length >= 0,
              "[prompts] max_prompt_length must be positive, or 0 for no limit; found ",
              options.max_prompt_length);
  TORCH_CHECK(options.long_prompts == LongPrompts::Drop || options.max_prompt_length > 0,
              "[prompts] long_prompts has no effect without max_prompt_length");
}

RowOptions row_options(const PromptOptions& options) {
  RowOptions rows;
  rows.max_length = 0;
  rows.input_template = options.input_template;
  rows.chat_template = options.chat_template;
  return rows;
}

/// If the user named a key, no other key is used instead.
std::vector<std::string_view> roles_to_look_for(const PromptOptions& options) {
  std::vector<std::string_view> named;
  for (const std::string_view role : kPromptRoles) {
    if (options.keys.contains(std::string(role))) {
      named.push_back(role);
    }
  }
  return named.empty() ? std::vector<std::string_view>(kPromptRoles.begin(), kPromptRoles.end())
                       : named;
}

std::string_view role_of(const RowFields& row, const PromptOptions& options) {
  const std::vector<std::string_view> roles = roles_to_look_for(options);
  for (const std::string_view role : roles) {
    // Alpaca's "input" is half of a prompt.
    if (row.has(role) && (role != "input" || !row.has("instruction"))) {
      return role;
    }
  }
  std::vector<std::string> names;
  for (const std::string_view role : roles) {
    names.push_back(row.name(role));
  }
  row.refuse_row("online training", names);
}

/// "messages" is a conversation, so its last turn may be the answer. A "prompt" that ends with an
/// assistant turn is used as it is, as in TRL and OpenRLHF.
void cut_off_answer(PromptRow& row, const std::string& name) {
  if (row.prompt.messages.back()["role"] == "assistant") {
    row.prompt = split_last_turn(row.prompt, name).first;
    row.had_answer = true;
  }
}

}  // namespace

PromptEncoder::PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, PromptOptions options)
    : options_(std::move(options)), row_encoder_(tokenizer, row_options(options_)) {
  check_keys(options_);
  check_limits(options_);
  RowTokenizer(std::move(tokenizer), row_options(options_));  // checks the shared options
}

PromptRow PromptEncoder::read(const Json& json) const {
  const RowFields fields(json, options_.keys);
  const std::string_view role = role_of(fields, options_);
  PromptRow row;
  row.prompt = read_prompt(fields, role, options_.input_template);
  row.convention = std::string(role) + format_suffix(row.prompt);
  refuse_unused_options(
      fields, {row.convention, row.prompt.is_chat, !row.prompt.is_chat}, row_encoder_.options());
  if (role == "messages") {
    if (!row.prompt.is_chat) {
      fields.refuse(role, "a list of messages");
    }
    cut_off_answer(row, fields.name(role));
  }
  if (row.prompt.is_chat) {
    row.variables = template_variables(fields);
    row.variables["add_generation_prompt"] = true;
  }
  return row;
}

PromptEncoder::Encoded PromptEncoder::encode(const PromptRow& row) const {
  Encoded encoded;
  if (row.prompt.is_chat) {
    encoded.text = row_encoder_.chats().render(row.prompt.messages, row.variables).text;
    encoded.ids =
        row_encoder_.encode_plain(encoded.text);  // the template writes all special tokens
  } else {
    encoded.text = row.prompt.text;
    encoded.ids = row_encoder_.encode_prompt(row.prompt, Json::object());
  }
  TORCH_CHECK(!encoded.ids.empty(), "the prompt has no tokens to generate from: ", row.convention);
  const auto length = static_cast<int64_t>(encoded.ids.size());
  encoded.length = length;
  encoded.is_too_long = options_.max_prompt_length > 0 && length > options_.max_prompt_length;
  if (encoded.is_too_long) {
    encoded.ids.erase(encoded.ids.begin(), encoded.ids.end() - options_.max_prompt_length);
  }
  return encoded;
}

}  // namespace reprise::data
