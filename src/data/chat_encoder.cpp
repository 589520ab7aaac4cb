// Rendering and encoding of chats; Note [The assistant's own tokens] is below.
#include "data/chat_encoder.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

// What transformers always defines for a template, beside the special tokens.
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

/// Whether a token covers a byte of any of the ranges.
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

bool ChatEncoder::has_marks() const {
  const ChatTemplate* used = template_ ? &*template_ : tokenizer_->chat_template();
  return used != nullptr && used->marks_generation();
}

TokenIds ChatEncoder::encode(const Json& messages, const Json& variables) const {
  return tokenizer_->encode(render(messages, variables).text, {.add_special_tokens = false}).ids;
}

// Note [The assistant's own tokens]
// A template that has {% generation %} marks them itself. Without marks a turn is what it adds to
// the rendered chat before it, the generation prompt included in what was there before; so what the
// template writes to end a turn counts, a newline behind it too. That needs a template that only
// ever appends: one that drops the thoughts of former turns, say, is refused, since labels would
// land on other tokens than the assistant's. Guessing by the text of the messages would be wrong as
// soon as a template trims or escapes it.
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
                "has no {% generation %} to tell its words from the template's");
    const std::string before =
        render(first_messages(messages, i), with_generation_prompt(variables)).text;
    const std::string after = render(first_messages(messages, i + 1), variables).text;
    TORCH_CHECK(starts_with(after, before) && starts_with(whole, after),
                "assistant_only_loss: the chat template has no {% generation %}, and it renders "
                "the start of this chat otherwise when messages follow (seen at message ",
                i,
                "), so the assistant's turns cannot be found. Give a chat template with "
                "{% generation %} around them");
    turns.emplace_back(before.size(), after.size());
  }
  return turns;
}

ChatEncoder::Marked ChatEncoder::encode_marked(const Json& messages,
                                               const Json& variables,
                                               TrainedTurns turns) const {
  RenderedChat chat = render(messages, variables);
  if (!has_marks() && chat.generated.empty()) {
    chat.generated = turns_by_prefix(messages, variables, chat.text);
  }
  if (turns == TrainedTurns::Last && !chat.generated.empty()) {
    chat.generated = {chat.generated.back()};
  }
  Encoding encoding = tokenizer_->encode(chat.text, {.add_special_tokens = false});
  std::vector<bool> is_own = tokens_in(chat.generated, encoding);
  TORCH_CHECK(std::find(is_own.begin(), is_own.end(), true) != is_own.end(),
              "assistant_only_loss: no token of this chat is the assistant's");
  return {std::move(encoding.ids), std::move(is_own)};
}

}  // namespace reprise::detail
