// ChatGLM2 and ChatGLM3 ship their tokenizer as Python code around a sentencepiece model. Like that
// code:
//   - the ids after the model's pieces are [MASK], [gMASK], [sMASK], sop, eop, in this order, and
//   then
//     (ChatGLM3) <|system|>, <|user|>, <|assistant|>, <|observation|>;
//   - add_special_tokens puts [gMASK] and sop before the text, and nothing after it;
//   - every part of a text is encoded separately, each with sentencepiece's leading space.
// In a text we recognise the bracketed names and the roles, which their chat format consists of.
// sop and eop also occur inside words (philosophy, people), so sop is recognised only directly
// after [gMASK], as chat templates write it, and eop never.
#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include <array>

namespace reprise::text {
namespace {

constexpr std::array<const char*, 9> kSpecial = {"[MASK]",
                                                 "[gMASK]",
                                                 "[sMASK]",
                                                 "sop",
                                                 "eop",
                                                 "<|system|>",
                                                 "<|user|>",
                                                 "<|assistant|>",
                                                 "<|observation|>"};
constexpr int64_t kMask = 1;   // [gMASK]
constexpr int64_t kStart = 3;  // sop
constexpr int64_t kEnd = 4;    // eop

AddedToken control(const char* content) {
  return {.content = content, .normalized = false, .special = true};
}

}  // namespace

bool is_chatglm(const Json& tokenizer_config) {
  if (!tokenizer_config.is_object()) {
    return false;
  }
  const auto names_it = [](const Json& value) {
    return value.is_string() &&
           value.get_ref<const std::string&>().find("ChatGLMTokenizer") != std::string::npos;
  };
  if (tokenizer_config.contains("tokenizer_class") &&
      names_it(tokenizer_config["tokenizer_class"])) {
    return true;
  }
  if (!tokenizer_config.contains("auto_map") || !tokenizer_config["auto_map"].is_object() ||
      !tokenizer_config["auto_map"].contains("AutoTokenizer")) {
    return false;
  }
  const Json& automatic = tokenizer_config["auto_map"]["AutoTokenizer"];
  return names_it(automatic) ||
         (automatic.is_array() && !automatic.empty() && names_it(automatic[0]));
}

SentencePieceSettings chatglm_settings() {
  SentencePieceSettings settings;
  settings.prefix = {{"[gMASK]", "ChatGLM's prefix"}, {"sop", "ChatGLM's prefix"}};
  for (size_t i = 0; i < kSpecial.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const int64_t id = AddedIds::kAfterModel + index;
    settings.named.emplace_back(kSpecial[i], id);
    if (index != kStart && index != kEnd) {
      settings.added.push_back({control(kSpecial[i]), {id}});
    }
  }
  settings.added.push_back(
      {control("[gMASK]sop"), {AddedIds::kAfterModel + kMask, AddedIds::kAfterModel + kStart}});
  return settings;
}

}  // namespace reprise::text
