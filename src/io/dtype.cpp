#include <reprise/io/dtype.h>

namespace reprise {

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    if (name == dtype_name(dtype) || name == std::string("torch.") + dtype_name(dtype)) {
      return dtype;
    }
  }
  return std::nullopt;
}

const char* dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return c10::toString(dtype);
  }
}

}  // namespace reprise
