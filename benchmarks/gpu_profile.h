// A step recorded kernel by kernel, as a Chrome trace; gpu_profile.py sums it up.
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <functional>
#include <set>
#include <string>

namespace gpu {

/// Runs `work`, which must wait for the device at its end, and writes the trace.
inline void write_profile(const std::string& path, const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  profiler::disableProfiler()->save(path);
}

}  // namespace gpu
