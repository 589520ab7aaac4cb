// Gloo through LibTorch's process group. LibTorch contains Gloo's code but not its headers; those
// come from Debian (libgloo-dev) and are of another version. So this file never looks inside a type
// of Gloo's: a device is made by LibTorch and handed back to it.
#include "dist/groups.h"

#include <c10/util/Exception.h>

#define USE_C10D_GLOO  // LibTorch has it, but its headers do not say so
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

namespace reprise::dist {

void check_gloo() {}

Group connect_gloo(const GroupOptions& group_options, const std::string& address) {
  using c10d::ProcessGroupGloo;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool has_interface = interface != nullptr && *interface != '\0';
  TORCH_CHECK(has_interface || !address.empty(),
              "[world] this machine has no address on the way to rank 0's. Check MASTER_ADDR, or "
              "set GLOO_SOCKET_IFNAME to the network interface to use");
  auto options = ProcessGroupGloo::Options::create(group_options.timeout);
  options->devices.push_back(has_interface ? ProcessGroupGloo::createDeviceForInterface(interface)
                                           : ProcessGroupGloo::createDeviceForHostname(address));
  options->threads = 1;  // for Gloo's own collectives, which are not used
  return c10::make_intrusive<ProcessGroupGloo>(
      group_options.store, group_options.rank, group_options.size, options);
}

}  // namespace reprise::dist
