// A small tokenizer with a chat template, for targets that need one.
#pragma once

#include <reprise/text/tokenizer.h>

#include <memory>
#include <string_view>

namespace reprise::testing {

inline constexpr std::string_view kTokenizer = R"({
  "version": "1.0",
  "added_tokens": [{"id": 8, "content": "<s>", "special": true},
                   {"id": 9, "content": "</s>", "special": true}],
  "pre_tokenizer": {"type": "Whitespace"},
  "model": {"type": "BPE", "unk_token": "?", "merges": ["a b", "b a"], "vocab":
    {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "+": 5, "-": 6, "ba": 7}}})";

inline constexpr std::string_view kTokenizerConfig =
    R"({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "?", "chat_template": ")"
    "{% for m in messages %}<s>{{ m.role }} {{ m.content }}"
    "{% if m.role == 'assistant' %}{% generation %}c</s>{% endgeneration %}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"
    R"("})";

inline std::shared_ptr<const Tokenizer> small_tokenizer() {
  static const auto tokenizer =
      Tokenizer::from_json(kTokenizer, "fuzz", parse_json(kTokenizerConfig, "fuzz"));
  return tokenizer;
}

}  // namespace reprise::testing
