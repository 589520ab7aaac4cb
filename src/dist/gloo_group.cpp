// The code is LibTorch's, and so is the Gloo in it; the headers are Debian's (libgloo-dev), of
// another version. So nothing here looks into a type of Gloo's: a device is made by LibTorch and
// handed back to it.
#include "dist/groups.h"

#include <c10/util/Exception.h>

#define USE_C10D_GLOO  // LibTorch has it, but its headers do not say so
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

namespace reprise::dist {

void check_gloo() {}

Group connect_gloo(const GroupPlace& place, const std::string& address) {
  using c10d::ProcessGroupGloo;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool is_told = interface != nullptr && *interface != '\0';
  TORCH_CHECK(is_told || !address.empty(),
              "[world] this machine has no address on the way to rank 0's. Check MASTER_ADDR, or "
              "set GLOO_SOCKET_IFNAME to the network interface to use");
  auto options = ProcessGroupGloo::Options::create(place.timeout);
  options->devices.push_back(is_told ? ProcessGroupGloo::createDeviceForInterface(interface)
                                     : ProcessGroupGloo::createDeviceForHostname(address));
  options->threads = 1;  // its collectives are not used: messages need none
  return c10::make_intrusive<ProcessGroupGloo>(place.store, place.rank, place.size, options);
}

}  // namespace reprise::dist
