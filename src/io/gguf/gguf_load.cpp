#include "io/gguf/gguf_file.h"

#include <ATen/Functions.h>

namespace reprise::io {

at::Tensor GgufFile::load(const GgufTensor& tensor) const {
  at::Tensor values = at::empty(tensor.shape, at::kFloat);
  read(tensor, {values.mutable_data_ptr<float>(), static_cast<size_t>(values.numel())});
  return values;
}

}  // namespace reprise::io
