// Which keys hold a prompt, in the order in which they count, and how it becomes ids.
#include "data/prompts_rows.h"

#include "data/row_effects.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

constexpr std::array<std::string_view, 4> kPromptRoles = {
    "prompt", "messages", "input", "question"};
constexpr std::array<std::string_view, 2> kTemplateRoles = {"tools", "chat_template_kwargs"};

void check_keys(const PromptOptions& options) {
  std::vector<std::string_view> roles(kPromptRoles.begin(), kPromptRoles.end());
  roles.insert(roles.end(), kTemplateRoles.begin(), kTemplateRoles.end());
  for (const auto& [role, name] : options.keys) {
    TORCH_CHECK(std::find(roles.begin(), roles.end(), role) != roles.end(),
                "[prompts] keys: nothing of a prompt is called \"",
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
              "[prompts] what to keep of long prompts has no effect without max_prompt_length");
}

RowOptions row_options(const PromptOptions& options) {
  RowOptions rows;
  rows.max_length = 0;
  rows.input_template = options.input_template;
  rows.chat_template = options.chat_template;
  return rows;
}

/// A name that the user gave is meant: another key with a prompt does not stand in for it.
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

/// "messages" is a conversation, so its last turn may be the answer; a "prompt" that ends with the
/// assistant's words is taken at its word, as TRL and OpenRLHF do.
void cut_off_answer(PromptRow& row, const std::string& name) {
  if (row.prompt.messages.back()["role"] == "assistant") {
    row.prompt = split_last_turn(row.prompt, name).first;
    row.had_answer = true;
  }
}

}  // namespace

PromptEncoder::PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, PromptOptions options)
    : options_(std::move(options)), passages_(tokenizer, row_options(options_)) {
  check_keys(options_);
  check_limits(options_);
  RowTokenizer(std::move(tokenizer), row_options(options_));  // for its checks of what is shared
}

PromptRow PromptEncoder::read(const Json& json) const {
  const RowFields fields(json, options_.keys);
  const std::string_view role = role_of(fields, options_);
  PromptRow row;
  row.prompt = read_prompt(fields, role, options_.input_template);
  row.convention = std::string(role) + form_of(row.prompt);
  check_row_effects(
      fields, {row.convention, row.prompt.is_chat, !row.prompt.is_chat}, passages_.options());
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
    encoded.text = passages_.chats().render(row.prompt.messages, row.variables).text;
    encoded.ids = passages_.encode_plain(encoded.text);  // the template wrote all special tokens
  } else {
    encoded.text = row.prompt.text;
    encoded.ids = passages_.encode_prompt(row.prompt, Json::object());
  }
  TORCH_CHECK(!encoded.ids.empty(),
              "the prompt has no token, and an answer needs one to begin from: ",
              row.convention);
  const auto length = static_cast<int64_t>(encoded.ids.size());
  encoded.is_too_long = options_.max_prompt_length > 0 && length > options_.max_prompt_length;
  if (encoded.is_too_long) {
    encoded.ids.erase(encoded.ids.begin(), encoded.ids.end() - options_.max_prompt_length);
  }
  return encoded;
}

}  // namespace reprise::detail
