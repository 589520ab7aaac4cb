// What the engine would do with a tensor's storage if a plan said so.
#pragma once

#include "plan/step_trace.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::planning {

/// What the storage would take on the host; 0: it would not be moved there.
int64_t host_bytes_of(const at::Tensor& tensor);

/// The smaller form that a kept result would get, in bytes of `device`.
TracedForm form_of(const at::Tensor& tensor, c10::Device device);

/// The host's memory as it is set up now.
TracedHost host_of(c10::Device device);

}  // namespace reprise::planning
