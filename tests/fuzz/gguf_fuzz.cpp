// libFuzzer: any bytes as a GGUF file. It is accepted or refused with c10::Error; what is accepted
// lies inside the file and can be dequantized.
#include "io/gguf/gguf_dequantize.h"
#include "io/gguf/gguf_header.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const auto header = reprise::io::parse_gguf_header(file, "fuzz");
    for (const reprise::io::GgufTensor& tensor : header.tensors) {
      if (tensor.begin > tensor.end || tensor.end > size) {
        std::abort();
      }
      size_t elements = 1;
      for (const int64_t length : tensor.shape) {
        elements *= static_cast<size_t>(length);
      }
      std::vector<float> values(elements);
      reprise::io::dequantize(
          tensor.type, file.subspan(tensor.begin, tensor.end - tensor.begin), values);
    }
  } catch (const c10::Error&) {
  }
  return 0;
}
