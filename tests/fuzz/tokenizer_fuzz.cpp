// A tokenizer.json, a byte 0xFF, and a text: whatever they are, opening, encoding and decoding
// either work or throw c10::Error; ids are the same with and without offsets.
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\xFF'), input.size());
  const std::string_view json = input.substr(0, cut);
  const std::string_view text = cut < input.size() ? input.substr(cut + 1) : "a b";
  try {
    const auto tokenizer = reprise::Tokenizer::from_json(json, "fuzz");
    const reprise::Encoding encoding = tokenizer->encode(text);
    if (tokenizer->encode(text, {.offsets = false}).ids != encoding.ids) {
      std::abort();
    }
    tokenizer->decode(encoding.ids);
    reprise::StreamDecoder decoder(tokenizer);
    for (const int64_t id : encoding.ids) {
      decoder.push(id);
    }
    decoder.finish();
  } catch (const c10::Error&) {
  }
  return 0;
}
