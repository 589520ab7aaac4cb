// Like TRL's extract_prompt, except for one case: TRL cuts answers without a common prefix at their
// last character if the chosen one ends with a space, because it reads index -1 as the previous
// character.
#include "data/rows/prompt_extraction.h"

#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise::data {
namespace {

/// Length in bytes of the common prompt of two texts.
size_t common_text(const std::string& chosen, const std::string& rejected) {
  TORCH_CHECK(!chosen.empty() && !rejected.empty(), "chosen and rejected must not be empty");
  const size_t shorter = std::min(chosen.size(), rejected.size());
  size_t common = 0;
  while (common < shorter && chosen[common] == rejected[common]) {
    ++common;
  }
  const bool differs = common < shorter;
  if (!differs) {
    common = shorter - 1;  // leave one character
  }
  while (common > 0 && text::is_continuation(chosen[common])) {
    --common;  // back to the start of the character that differs
  }
  return differs && common > 0 && chosen[common - 1] == ' ' ? common - 1 : common;
}

/// Ignores the order of keys.
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

ExtractedPrompt extract_prompt(const TextOrChat& chosen, const TextOrChat& rejected) {
  TORCH_CHECK(
      chosen.is_chat == rejected.is_chat,
      "one of chosen and rejected is text and the other a chat; both must be of the same kind");
  if (!chosen.is_chat) {
    const size_t common = common_text(chosen.text, rejected.text);
    return {make_text(chosen.text.substr(0, common)),
            make_text(chosen.text.substr(common)),
            make_text(rejected.text.substr(common))};
  }
  const Json& good = chosen.messages;
  const Json& bad = rejected.messages;
  const size_t common = common_messages(good, bad);
  TORCH_CHECK(common > 0, "chosen and rejected do not begin with the same message: no prompt");
  return {make_chat(messages_from(good, 0, common)),
          make_chat(messages_from(good, common, good.size())),
          make_chat(messages_from(bad, common, bad.size()))};
}

}  // namespace reprise::data
