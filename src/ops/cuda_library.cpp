// Opens libreprise_cuda, which registers our CUDA kernels with the dispatcher.
#include <reprise/ops/cuda_kernels.h>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <dlfcn.h>

#include <filesystem>

namespace reprise {

namespace {

// libreprise_cuda.so, beside the library that this function is in.
std::filesystem::path library_path() {
  Dl_info info{};
  const bool is_known = dladdr(reinterpret_cast<const void*>(&load_cuda_kernels), &info) != 0;
  const auto own = is_known ? std::filesystem::path(info.dli_fname) : std::filesystem::path();
  return own.parent_path() / "libreprise_cuda.so";
}

// Returns what went wrong; empty: nothing.
std::string open_library() {
  if (!at::globalContext().hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0) {
    return "there is no GPU, or LibTorch's CUDA library is not loaded";
  }
  const auto path = library_path();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return "Reprise was built without nvcc, so ATen's operators serve on the GPU";
  }
  // Never closed: the dispatcher keeps pointers into it.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* reason = dlerror();
    return "could not open " + path.string() + ": " + (reason == nullptr ? "unknown" : reason);
  }
  return {};
}

}  // namespace

const std::string& missing_cuda_kernels() {
  static const std::string reason = open_library();
  return reason;
}

bool load_cuda_kernels() {
  return missing_cuda_kernels().empty();
}

}  // namespace reprise
