// libFuzzer: a tokenizer_config.json, a special_tokens_map.json and an added_tokens.json, with a
// byte 0xFF between them. They are refused with c10::Error, or a tokenizer with them encodes and
// decodes.
#include "fuzzed_tokenizer.h"

#include "text/tokenizer/tokenizer_config.h"

#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

/// Cuts off what is before the next 0xFF; null if that is nothing.
reprise::Json take_json(std::string_view& rest) {
  const std::string_view text = rest.substr(0, rest.find('\xFF'));
  rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  return text.empty() ? reprise::Json() : reprise::parse_json(text, "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  try {
    reprise::text::TokenizerFiles files;
    files.config = take_json(rest);
    files.special_tokens_map = take_json(rest);
    files.added_tokens = take_json(rest);
    reprise::text::read_tokenizer_config(files);
    const auto tokenizer =
        reprise::Tokenizer::from_json(reprise::testing::kTokenizer, "fuzz", files.config);
    tokenizer->decode(tokenizer->encode("ab <s>ba</s> c").ids);
  } catch (const c10::Error&) {
  }
  return 0;
}
