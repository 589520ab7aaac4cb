// As TRL's extract_prompt, but for one case: there, answers that share nothing are cut at their
// last character if the chosen one ends in a space, because index -1 is taken for the character
// before.
#include "data/prompt_extraction.h"

#include "text/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise::detail {
namespace {

/// Bytes of the common prompt of two texts.
size_t common_text(const std::string& chosen, const std::string& rejected) {
  TORCH_CHECK(!chosen.empty() && !rejected.empty(), "chosen and rejected must not be empty");
  const size_t shorter = std::min(chosen.size(), rejected.size());
  size_t common = 0;
  while (common < shorter && chosen[common] == rejected[common]) {
    ++common;
  }
  const bool differs = common < shorter;
  if (!differs) {
    common = shorter - 1;  // one character is left
  }
  while (common > 0 && is_continuation(chosen[common])) {
    --common;  // to the start of the character that differs
  }
  return differs && common > 0 && chosen[common - 1] == ' ' ? common - 1 : common;
}

/// Whatever the order of their keys.
bool are_same(const Json& message, const Json& other) {
  return nlohmann::json(message) == nlohmann::json(other);
}

size_t common_messages(const Json& chosen, const Json& rejected) {
  const size_t shorter = std::min(chosen.size(), rejected.size());
  size_t common = 0;
  while (common + 1 < shorter && are_same(chosen[common], rejected[common])) {
    ++common;
  }
  return common;
}

Json messages_from(const Json& messages, size_t begin, size_t end) {
  Json part = Json::array();
  for (size_t i = begin; i < end; ++i) {
    part.push_back(messages[i]);
  }
  return part;
}

}  // namespace

ExtractedPrompt extract_prompt(const Passage& chosen, const Passage& rejected) {
  TORCH_CHECK(chosen.is_chat == rejected.is_chat,
              "one of chosen and rejected is text and the other a chat; both must be the same");
  if (!chosen.is_chat) {
    const size_t common = common_text(chosen.text, rejected.text);
    return {text_passage(chosen.text.substr(0, common)),
            text_passage(chosen.text.substr(common)),
            text_passage(rejected.text.substr(common))};
  }
  const Json& good = chosen.messages;
  const Json& bad = rejected.messages;
  const size_t common = common_messages(good, bad);
  TORCH_CHECK(common > 0, "chosen and rejected do not begin with the same message: no prompt");
  return {chat_passage(messages_from(good, 0, common)),
          chat_passage(messages_from(good, common, good.size())),
          chat_passage(messages_from(bad, common, bad.size()))};
}

}  // namespace reprise::detail
