// The c10d process groups behind a world: Gloo for CPU tensors, NCCL for GPU tensors.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace reprise::dist {

using Group = c10::intrusive_ptr<c10d::Backend>;

struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int size;
  std::chrono::milliseconds timeout;
};

/// Throws, naming the package to install, if Reprise was built without Gloo.
void check_gloo();
/// A group connected to all other processes. This process listens at `address`, unless
/// GLOO_SOCKET_IFNAME names an interface.
REPRISE_API Group connect_gloo(const GroupOptions& options, const std::string& address);

/// Set by libreprise_cuda when it is loaded, if it was built with NCCL.
using MakeGpuGroup = Group (*)(const GroupOptions& options, c10::Device device);
REPRISE_API void provide_gpu_group(MakeGpuGroup make);
/// Throws if GPU groups are not available, and says what is missing.
void check_gpu_group();
Group connect_gpu_group(const GroupOptions& options, c10::Device device);

}  // namespace reprise::dist
