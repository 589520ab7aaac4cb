// The content of a storage, whatever tensors make of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace reprise::detail {

/// All bytes of a storage as a tensor with a version counter of its own. Call it under
/// EngineOpsGuard.
at::Tensor bytes_of(const c10::Storage& storage);

}  // namespace reprise::detail
