// What all tokenizers share: named special tokens and chat templates.
#include <reprise/text/tokenizer.h>

#include "text/tokenizer/tokenizer_config.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) {
    result += (result.empty() ? "" : ", ") + name;
  }
  return result;
}

// No token covers this byte.
constexpr size_t kNoToken = std::numeric_limits<size_t>::max();

/// For each byte of the text, the first token that covers it.
std::vector<size_t> tokens_by_byte(const Encoding& encoding, size_t bytes) {
  std::vector<size_t> tokens(bytes, kNoToken);
  for (size_t i = encoding.offsets.size(); i-- > 0;) {
    const auto [begin, end] = encoding.offsets[i];
    for (size_t at = begin; at < std::min(end, bytes); ++at) {
      tokens[at] = i;
    }
  }
  return tokens;
}

// Note [Which tokens are generated]
// Like the assistant mask of transformers: from the token that covers the first character of a
// block to the token that covers its last, inclusive, so that a token across the edge of the block
// counts. If the last character has no token, or its token has index 0, all tokens from the first
// one on count. If the first character has no token, neither this block nor any later one counts.
std::vector<bool> generated_tokens(const RenderedChat& chat, const Encoding& encoding) {
  if (chat.generated.empty()) {
    return std::vector<bool>(encoding.ids.size(), false);
  }
  const std::vector<size_t> tokens = tokens_by_byte(encoding, chat.text.size());
  const auto token_at = [&](size_t at) { return at < tokens.size() ? tokens[at] : kNoToken; };
  std::vector<int64_t> changes(encoding.ids.size() + 1, 0);
  for (const auto& [begin, end] : chat.generated) {
    const size_t first = token_at(begin);
    if (first == kNoToken) {
      break;
    }
    const size_t last = end == 0 ? kNoToken : token_at(end - 1);
    const size_t stop = last == kNoToken || last == 0 ? encoding.ids.size() : last + 1;
    if (first < stop && end > 0) {
      ++changes[first];
      --changes[stop];
    }
  }
  std::vector<bool> generated;
  generated.reserve(encoding.ids.size());
  int64_t open = 0;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    open += changes[i];
    generated.push_back(open > 0);
  }
  return generated;
}

}  // namespace

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

void Tokenizer::configure(const text::TokenizerConfig& config) {
  template_variables_ = config.variables;
  const auto id_of_named = [&](const char* name) -> std::optional<int64_t> {
    return template_variables_.contains(name)
               ? id_of(template_variables_[name].get_ref<const std::string&>())
               : std::nullopt;
  };
  special_tokens_ = {.bos = id_of_named("bos_token"),
                     .eos = id_of_named("eos_token"),
                     .pad = id_of_named("pad_token"),
                     .unk = id_of_named("unk_token")};
  for (const auto& [name, text] : config.templates) {
    template_names_.push_back(name);
    if (name == "default") {
      chat_template_.emplace(text.text, text.source);
    } else if (name == "tool_use") {
      tool_template_.emplace(text.text, text.source);
    }
  }
}

const ChatTemplate& Tokenizer::template_for(const Json& variables) const {
  if (tool_template_ && variables.contains("tools") && !variables["tools"].is_null()) {
    return *tool_template_;
  }
  TORCH_CHECK(chat_template_ || template_names_.empty(),
              "[tokenizer] this model has several chat templates and none is called default; "
              "found: ",
              joined(template_names_));
  TORCH_CHECK(chat_template_,
              "[tokenizer] this model has no chat template: there is neither "
              "chat_template.jinja nor a chat_template in tokenizer_config.json; pass plain text, "
              "or put a template into the model folder");
  return *chat_template_;
}

RenderedChat Tokenizer::render_chat(const Json& messages, const Json& variables) const {
  Json all = template_variables_.is_null() ? Json::object() : template_variables_;
  if (variables.is_object()) {
    for (const auto& [name, value] : variables.items()) {
      all[name] = value;
    }
  }
  all["messages"] = messages;
  if (!all.contains("add_generation_prompt")) {
    all["add_generation_prompt"] = false;
  }
  for (const char* always : {"tools", "documents"}) {  // always defined, none if absent
    if (!all.contains(always)) {
      all[always] = nullptr;
    }
  }
  return template_for(all).render(all);
}

Tokenizer::EncodedChat Tokenizer::encode_chat(const Json& messages, const Json& variables) const {
  const RenderedChat chat = render_chat(messages, variables);
  Encoding encoding = encode(chat.text, {.add_special_tokens = false});
  std::vector<bool> generated = generated_tokens(chat, encoding);
  return {std::move(encoding.ids), std::move(generated)};
}

}  // namespace reprise
