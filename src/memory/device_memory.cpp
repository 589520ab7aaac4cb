#include "memory/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace reprise::memory {

namespace {

/// The number in a file of the kernel; std::nullopt if there is no file, or no limit in it.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

int64_t available_bytes() {
  constexpr int64_t kKilobyte = 1024;
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") {
      return kilobytes * kKilobyte;
    }
    std::getline(file, name);
  }
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

DeviceMemory main_memory() {
  const std::string group = "/sys/fs/cgroup/memory.";
  DeviceMemory memory{
      .total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE),
      .left = available_bytes()};
  if (const auto limit = number_in(group + "max")) {
    memory.total = std::min(memory.total, *limit);
    memory.left = std::min(memory.left, *limit - number_in(group + "current").value_or(0));
  }
  memory.left = std::max<int64_t>(memory.left, 0);
  return memory;
}

}  // namespace

DeviceMemory device_memory(c10::Device device) {
  if (device.is_cpu()) {
    return main_memory();
  }
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  TORCH_CHECK(allocator != nullptr && allocator->initialized(),
              "[reprise] the memory of ",
              device,
              " is not known: nothing was allocated there yet.");
  const auto index = device.has_index()
                         ? device.index()
                         : c10::impl::getDeviceGuardImpl(device.type())->getDevice().index();
  const auto [free, total] = allocator->getMemoryInfo(index);
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = allocator->getDeviceStats(index);
  return {.total = static_cast<int64_t>(total),
          .left = static_cast<int64_t>(free) + stats.reserved_bytes[kAll].current -
                  stats.allocated_bytes[kAll].current};
}

}  // namespace reprise::memory
