// Which program runs, for the signal handler.
#pragma once

#include <cstdint>

namespace reprise::fuzz {

/// In its scope, the program of this seed runs; after a minute the process is ended.
class RunningSeed {
 public:
  explicit RunningSeed(uint64_t seed);
  ~RunningSeed();
  RunningSeed(const RunningSeed&) = delete;
  RunningSeed& operator=(const RunningSeed&) = delete;
};

}  // namespace reprise::fuzz
