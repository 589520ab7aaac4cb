#include "reprise/device.h"

#include <reprise/ops/cuda_kernels.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <iostream>
#include <vector>

namespace reprise::app {

void add_device_option(CLI::App& command, std::string& device) {
  command
      .add_option("--device", device, "Device to compute on; by default the GPU if there is one")
      ->check(CLI::IsMember(std::vector<std::string>(kDeviceNames.begin(), kDeviceNames.end())));
}

c10::Device choose_device(const std::string& name) {
  const bool has_cuda = torch::cuda::is_available();
  TORCH_CHECK(name != "cuda" || has_cuda,
              "--device cuda: no GPU, or LibTorch's CUDA library could not be loaded");
  if (name == "cpu" || !has_cuda) {
    return at::kCPU;
  }
  if (!load_cuda_kernels()) {
    std::cerr << "running without Reprise's CUDA kernels: " << missing_cuda_kernels() << "\n";
  }
  return at::kCUDA;
}

c10::Device choose_device(const std::string& name, int64_t local_rank) {
  if (choose_device(name).is_cpu()) {
    return at::kCPU;
  }
  const int64_t count = torch::cuda::device_count();
  // A scheduler that makes one GPU visible to each process has already chosen.
  if (count == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) {
    local_rank = 0;
  }
  TORCH_CHECK(local_rank < count,
              "process ",
              local_rank,
              " of this machine (counted from 0) has no GPU of its own: there are ",
              count,
              ". Start fewer processes, or give --device cpu");
  const c10::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

}  // namespace reprise::app
