// What the engine could do with a tensor's storage: offload or compress it.
#pragma once

#include "plan/trace/step_trace.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::planning {

/// Bytes that the storage would take on the host; 0: it cannot be offloaded.
int64_t host_bytes_of(const at::Tensor& tensor);

/// The compressed form that a kept result would get, in bytes of `device`.
TracedForm form_of(const at::Tensor& tensor, c10::Device device);

/// Host memory as it is set up now.
TracedHost host_of(c10::Device device);

}  // namespace reprise::planning
