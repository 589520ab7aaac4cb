// libFuzzer: any bytes as a file of torch.save. Its tensors are accepted or refused with
// c10::Error, and what is accepted lies inside the file.
#include "io/pickle/torch_header.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto header =
        reprise::io::parse_torch_header(std::as_bytes(std::span(data, size)), "fuzz");
    for (const reprise::TensorInfo& info : header.tensors) {
      if (info.begin > info.end || info.end > size) {
        std::abort();
      }
    }
  } catch (const c10::Error&) {
  }
  return 0;
}
