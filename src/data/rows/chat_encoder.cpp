// Renders and tokenises chats. See Note [The assistant's own tokens].
#include "data/rows/chat_encoder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::data {
namespace {

// Variables that transformers always defines for a template, and the special tokens.
Json usual_variables(const Tokenizer& tokenizer) {
  Json variables = {{"add_generation_prompt", false}, {"tools", nullptr}, {"documents", nullptr}};
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const auto& [name, id] : {std::pair{"bos_token", special.bos},
                                 std::pair{"eos_token", special.eos},
                                 std::pair{"pad_token", special.pad},
                                 std::pair{"unk_token", special.unk}}) {
    if (id) {
      variables[name] = tokenizer.token_of(*id).value();
    }
  }
  return variables;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

Json first_messages(const Json& messages, size_t count) {
  Json first = messages;
  first.get_ref<Json::array_t&>().resize(count);
  return first;
}

Json with_generation_prompt(Json variables) {
  variables["add_generation_prompt"] = true;
  return variables;
}

/// For each token, whether it covers a byte of any range.
std::vector<bool> tokens_in(const ByteRanges& ranges, const Encoding& encoding) {
  std::vector<bool> covered(encoding.ids.size(), false);
  for (size_t i = 0; i < covered.size(); ++i) {
    const auto [begin, end] = encoding.offsets[i];
    covered[i] = std::any_of(ranges.begin(), ranges.end(), [begin = begin, end = end](auto range) {
      return begin < range.second && range.first < end;
    });
  }
  return covered;
}

}  // namespace

ChatEncoder::ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                         const std::string& chat_template)
    : tokenizer_(std::move(tokenizer)) {
  if (!chat_template.empty()) {
    template_.emplace(chat_template, "chat_template");
  }
}

RenderedChat ChatEncoder::render(const Json& messages, const Json& variables) const {
  if (!template_) {
    return tokenizer_->render_chat(messages, variables);
  }
  Json all = usual_variables(*tokenizer_);
  all.update(variables);
  all["messages"] = messages;
  return template_->render(all);
}

bool ChatEncoder::marks_generation() const {
  const ChatTemplate* used = template_ ? &*template_ : tokenizer_->chat_template();
  return used != nullptr && used->marks_generation();
}

// Note [The assistant's own tokens]
// A template with {% generation %} marks them itself. Without such marks, a turn is what it adds to
// the chat rendered so far, where "so far" includes the generation prompt. Text that ends a turn,
// even a newline after it, therefore belongs to the turn. This works only for templates that
// append. A template that, for example, drops the reasoning of earlier turns is refused, because
// labels would fall on tokens that are not the assistant's. Searching for the text of the messages
// would fail as soon as a template trims or escapes it.
ByteRanges ChatEncoder::turns_by_prefix(const Json& messages,
                                        const Json& variables,
                                        const std::string& whole) const {
  ByteRanges turns;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") {
      continue;
    }
    TORCH_CHECK(i > 0,
                "assistant_only_loss: the chat begins with the assistant, and the chat template "
                "has no {% generation %} to tell the assistant's text from the template's");
    const std::string before =
        render(first_messages(messages, i), with_generation_prompt(variables)).text;
    const std::string after = render(first_messages(messages, i + 1), variables).text;
    TORCH_CHECK(starts_with(after, before) && starts_with(whole, after),
                "assistant_only_loss: the chat template has no {% generation %}, and it renders "
                "the start of this chat differently when messages follow (seen at message ",
                i,
                "), so the assistant's turns cannot be found. Use a chat template with "
                "{% generation %} around them");
    turns.emplace_back(before.size(), after.size());
  }
  return turns;
}

ChatEncoder::MaskedChat ChatEncoder::encode_with_mask(const Json& messages,
                                                      const Json& variables,
                                                      TrainedTurns turns) const {
  RenderedChat chat = render(messages, variables);
  if (!marks_generation() && chat.generated.empty()) {
    chat.generated = turns_by_prefix(messages, variables, chat.text);
  }
  if (turns == TrainedTurns::Last && !chat.generated.empty()) {
    chat.generated = {chat.generated.back()};
  }
  Encoding encoding = tokenizer_->encode(chat.text, {.add_special_tokens = false});
  std::vector<bool> assistant_mask = tokens_in(chat.generated, encoding);
  TORCH_CHECK(std::find(assistant_mask.begin(), assistant_mask.end(), true) != assistant_mask.end(),
              "assistant_only_loss: the assistant has no tokens in this chat");
  return {std::move(encoding.ids), std::move(assistant_mask)};
}

}  // namespace reprise::data
