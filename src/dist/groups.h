// c10d's process groups that worlds are made of: Gloo for CPU tensors, NCCL for those on a GPU.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace reprise::dist {

using Group = c10::intrusive_ptr<c10d::Backend>;

struct GroupPlace {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int size;
  std::chrono::milliseconds timeout;
};

/// Throws, naming the package, where Reprise was built without it.
void check_gloo();
/// Connected to all others. `address` is where this process listens; GLOO_SOCKET_IFNAME overrules.
Group connect_gloo(const GroupPlace& place, const std::string& address);

/// libreprise_cuda gives this when it is loaded, if it was built with NCCL.
using MakeGpuGroup = Group (*)(const GroupPlace& place, c10::Device device);
REPRISE_API void provide_gpu_group(MakeGpuGroup make);
/// Throws, saying what is missing.
void check_gpu_group();
Group connect_gpu_group(const GroupPlace& place, c10::Device device);

}  // namespace reprise::dist
