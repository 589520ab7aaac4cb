#include "dist/groups.h"

#include <reprise/ops/cuda_kernels.h>

#include <c10/util/Exception.h>

namespace reprise::dist {

namespace {

MakeGpuGroup make_gpu_group = nullptr;

}  // namespace

void provide_gpu_group(MakeGpuGroup make) {
  make_gpu_group = make;
}

void check_gpu_group() {
  TORCH_CHECK(load_cuda_kernels(),
              "[world] processes with GPUs communicate by NCCL, which is in libreprise_cuda: ",
              missing_cuda_kernels());
  TORCH_CHECK(make_gpu_group != nullptr,
              "[world] libreprise_cuda was built without NCCL's header. Install it (the Python "
              "package nvidia-nccl-cu13 has it) and build again");
}

Group connect_gpu_group(const GroupOptions& options, c10::Device device) {
  check_gpu_group();
  return make_gpu_group(options, device);
}

}  // namespace reprise::dist
