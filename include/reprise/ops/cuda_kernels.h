// Reprise's CUDA kernels. They are a separate library, libreprise_cuda, in the folder of this one,
// which is opened on machines with a GPU. Without it (a build without nvcc) the same operators run
// by ATen.
#pragma once

#include <reprise/export.h>

#include <string>

namespace reprise {

/// Opens the library if there is a GPU, once per process, and returns whether it is open. Its
/// kernels then serve all CUDA tensors. Models and losses on a GPU call this themselves.
REPRISE_API bool load_cuda_kernels();

/// Why the library is not open, in one sentence; empty if it is.
REPRISE_API const std::string& missing_cuda_kernels();

}  // namespace reprise
