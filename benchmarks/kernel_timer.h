// The time of a call on the device: of its kernels alone, by the profiler, and of consecutive
// calls, by the clock.
//
// Note [Cold calls]
// A kernel that finds its input in the L2 cache is faster than memory. So calls alternate between
// several sets of inputs, and results are kept until the next turn of their set: between two uses
// of a set, more bytes are touched than any cache holds.
#pragma once

#include "gpu_device.h"
#include "gpu_profile.h"

#include <ATen/core/Tensor.h>
#include <kineto/ActivityType.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpu {

/// A call on its own inputs, which returns its results.
using Call = std::function<std::vector<at::Tensor>()>;

/// Calls on alternating sets of inputs.
class Turns {
 public:
  /// `bytes`: what a call reads and writes; 0 if the cache does not matter.
  Turns(const std::function<Call()>& make, int64_t bytes) {
    constexpr int64_t kColdBytes = int64_t{256} << 20;  // five times an H200's cache
    const int64_t sets = bytes == 0 ? 1 : std::max<int64_t>(1, kColdBytes / bytes + 1);
    for (int64_t i = 0; i < sets; ++i) {
      calls_.push_back(make());
    }
    results_.resize(calls_.size());
  }

  void take(int64_t turns) {
    for (int64_t i = 0; i < turns; ++i) {
      results_[next_] = calls_[next_]();
      next_ = (next_ + 1) % calls_.size();
    }
  }

 private:
  std::vector<Call> calls_;
  std::vector<std::vector<at::Tensor>> results_;
  size_t next_ = 0;
};

struct CallTime {
  double us = 0;                    ///< from one call to the next, launches included
  std::optional<double> kernel_us;  ///< of its kernels alone; std::nullopt if none were profiled
};

/// Total microseconds of the kernels, copies and fills in the profile whose names contain `named`.
inline double device_microseconds(const torch::autograd::profiler::ProfilerResult& profile,
                                  const std::string& named) {
  double sum = 0;
  for (const auto& event : profile.events()) {
    const auto type = static_cast<libkineto::ActivityType>(event.activityType());
    const bool is_work = type == libkineto::ActivityType::CONCURRENT_KERNEL ||
                         type == libkineto::ActivityType::GPU_MEMCPY ||
                         type == libkineto::ActivityType::GPU_MEMSET;
    if (is_work && event.name().find(named) != std::string::npos) {
      sum += static_cast<double>(event.durationNs()) / 1e3;
    }
  }
  return sum;
}

/// Only counts kernels whose names contain `named`.
inline CallTime time_of(Turns& turns,
                        at::Device device,
                        int64_t calls,
                        const std::string& named = "") {
  turns.take(std::max<int64_t>(3, calls / 4));
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  turns.take(calls);
  synchronize(device);
  const std::chrono::duration<double, std::micro> whole = std::chrono::steady_clock::now() - start;
  CallTime time{.us = whole.count() / static_cast<double>(calls), .kernel_us = {}};
  if (!device.is_cpu()) {
    const auto profile = profiled([&] {
      turns.take(calls);
      synchronize(device);
    });
    const double sum = device_microseconds(*profile, named);
    if (sum > 0) {
      time.kernel_us = sum / static_cast<double>(calls);
    }
  }
  return time;
}

}  // namespace gpu
