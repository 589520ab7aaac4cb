#include "checkpoint/state/storage_bytes.h"

#include <ATen/ops/empty.h>

namespace reprise::detail {

at::Tensor bytes_of(const c10::Storage& storage) {
  auto bytes = at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte));
  bytes.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
  return bytes;
}

}  // namespace reprise::detail
