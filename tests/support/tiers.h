// Gives the CPU a host tier in a scope: Note [Tiers].
#pragma once

#include "memory/host_memory.h"

namespace reprise::testing {

class CpuTiers {
 public:
  CpuTiers() { memory::set_cpu_tiers(true); }
  ~CpuTiers() { memory::set_cpu_tiers(false); }
  CpuTiers(const CpuTiers&) = delete;
  CpuTiers& operator=(const CpuTiers&) = delete;
};

}  // namespace reprise::testing
