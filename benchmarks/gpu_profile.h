// Profiling kernel by kernel: as a Chrome trace of a step, which gpu_profile.py summarises, or as
// device events for bench_kernels.
#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace gpu {

/// Profiles `work`, which must synchronize with the device at its end.
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

/// Profiles `work` and writes the trace.
inline void write_profile(const std::string& path, const std::function<void()>& work) {
  profiled(work)->save(path);
}

}  // namespace gpu
