// NCCL through LibTorch's process group; part of libreprise_cuda.
#include "dist/groups.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#define USE_C10D_NCCL  // LibTorch has it, but its headers do not say so
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace reprise::dist {

namespace {

Group make_nccl_group(const GroupOptions& group_options, c10::Device device) {
  // LibTorch's types contain NCCL's, whose size changes with its version.
  TORCH_CHECK(c10d::getNcclVersionNumber() / 100 == NCCL_VERSION_CODE / 100,
              "[world] libreprise_cuda was built with the header of NCCL ",
              NCCL_MAJOR,
              ".",
              NCCL_MINOR,
              ", and LibTorch has NCCL ",
              c10d::getNcclVersion(),
              ". Build with the header of that version");
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = group_options.timeout;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      group_options.store, group_options.rank, group_options.size, std::move(options));
  // Connect now, so that an error is reported as a failure to connect and not in the first
  // collective.
  const c10::cuda::CUDAGuard guard(device);
  group->setBoundDeviceId(device);
  group->eagerConnectSingleDevice(device);
  return group;
}

[[maybe_unused]] const bool kIsProvided = (provide_gpu_group(&make_nccl_group), true);

}  // namespace

}  // namespace reprise::dist
