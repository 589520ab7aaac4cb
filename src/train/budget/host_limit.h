// A limit on host memory for what leaves the device, while an object lives.
#pragma once

#include "memory/host_memory.h"

#include <cstdint>

namespace reprise {

class HostLimit {
 public:
  /// 0: the limit stays as it is.
  explicit HostLimit(int64_t bytes) : before_(memory::host_limit()) {
    if (bytes > 0) {
      memory::set_host_limit(bytes);
    }
  }
  ~HostLimit() { memory::set_host_limit(before_); }
  HostLimit(const HostLimit&) = delete;
  HostLimit& operator=(const HostLimit&) = delete;

 private:
  int64_t before_;
};

}  // namespace reprise
