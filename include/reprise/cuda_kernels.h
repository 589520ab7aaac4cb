// Our CUDA kernels: a library of its own, libreprise_cuda, that lies beside this one and is opened
// where there is a GPU. Without it (built without nvcc) ATen's operators serve under the same
// names.
#pragma once

#include <reprise/export.h>

#include <string>

namespace reprise {

/// Opens it, once a process, if there is a GPU; what it registers with the dispatcher then serves
/// all CUDA tensors. True if it is open. Models and losses on a GPU call it themselves.
REPRISE_API bool load_cuda_kernels();

/// Why it is not open: one sentence; empty if it is.
REPRISE_API const std::string& missing_cuda_kernels();

}  // namespace reprise
