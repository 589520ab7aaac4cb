// Work recorded kernel by kernel: as a Chrome trace of a step, which gpu_profile.py sums up, or as
// what the device did, for bench_kernels.
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace gpu {

/// Runs `work`, which must wait for the device at its end.
inline std::unique_ptr<torch::autograd::profiler::ProfilerResult> profiled(
    const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  return profiler::disableProfiler();
}

/// The same, and writes the trace.
inline void write_profile(const std::string& path, const std::function<void()>& work) {
  profiled(work)->save(path);
}

}  // namespace gpu
