// Replaces gloo_group.cpp if Gloo's headers were not found.
#include "dist/groups.h"

#include <c10/util/Exception.h>

namespace reprise::dist {

void check_gloo() {
  TORCH_CHECK(false,
              "[world] Reprise was built without Gloo's headers, so its processes cannot "
              "communicate. Install them (Debian: libgloo-dev) and build again");
}

Group connect_gloo(const GroupOptions& /*options*/, const std::string& /*address*/) {
  check_gloo();
  return {};
}

}  // namespace reprise::dist
