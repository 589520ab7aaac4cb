// A tokenizer.model (sentencepiece), whatever it is, either works or is refused with c10::Error.
#include "text/sentencepiece/sentencepiece_tokenizer.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string model(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = reprise::text::make_sentencepiece_tokenizer(
        model, "fuzz", reprise::text::chatglm_settings());
    tokenizer->decode(tokenizer->encode("The ﬁrst … of [gMASK]sop 漢字\t\n", {}).ids, true);
  } catch (const c10::Error&) {
  }
  return 0;
}
