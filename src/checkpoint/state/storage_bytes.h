// The raw bytes of a storage.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace reprise::detail {

/// All bytes of a storage as a tensor with its own version counter. Call it under an
/// EngineOpsGuard.
at::Tensor bytes_of(const c10::Storage& storage);

}  // namespace reprise::detail
