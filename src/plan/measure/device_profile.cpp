// Profiles of known GPUs, and the measured profile of this machine.
#include <reprise/device_profile.h>

#include "memory/device_memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace reprise {

namespace {

constexpr double kTera = 1e12;
constexpr int64_t kGibibyte = int64_t{1} << 30;

// Public figures of dense products and memory. The efficiencies were measured on an H200
// (benchmarks/results/h200.md) and are assumed to be the same on the others. The driver and the
// libraries take part of the memory.
DeviceProfile gpu(const char* name,
                  int generation,
                  int64_t gibibytes,
                  double half_teraflops,
                  double float_teraflops,
                  double terabytes) {
  constexpr double kReached = 0.80;
  DeviceProfile profile;
  profile.name = name;
  profile.generation = generation;
  profile.memory_bytes = (gibibytes - 1) * kGibibyte;
  profile.half_flops = half_teraflops * kTera;
  profile.float_flops = float_teraflops * kTera;
  profile.memory_speed = terabytes * kTera * kReached;
  profile.link_speed = generation >= kHopper ? 50e9 : 24e9;
  profile.product_efficiency = 0.72;
  profile.attention_efficiency = 0.48;
  profile.attention_backward_efficiency = 0.43;
  profile.attention_half_length = 900;
  profile.launch_ns = 3000;
  return profile;
}

double seconds_of(const std::function<void()>& work, const std::function<void()>& wait) {
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {  // the first warms up
    wait();
    const auto begin = std::chrono::steady_clock::now();
    work();
    wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

// Measures a matrix product and a copy, large enough to occupy the whole device.
DeviceProfile measured(DeviceProfile profile,
                       int64_t side,
                       int64_t copied_bytes,
                       const std::function<void()>& wait) {
  const at::NoGradGuard no_grad;
  const auto options = at::device(profile.type).dtype(at::kFloat);
  const auto product_speed = [&](at::ScalarType type) {
    const auto a = at::ones({side, side}, options.dtype(type));
    auto out = at::empty_like(a);
    const double flops = 2.0 * static_cast<double>(side) * static_cast<double>(side * side);
    return flops / seconds_of([&] { at::mm_out(out, a, a); }, wait);
  };
  profile.float_flops = product_speed(at::kFloat);
  profile.half_flops = product_speed(at::kBFloat16);
  const auto from = at::ones({copied_bytes}, options.dtype(at::kByte));
  auto to = at::ones_like(from);
  profile.memory_speed =
      2 * static_cast<double>(copied_bytes) / seconds_of([&] { to.copy_(from); }, wait);
  return profile;
}

DeviceProfile this_cpu() {
  DeviceProfile profile;
  profile.name = "cpu";
  profile.type = c10::kCPU;
  profile.memory_bytes = memory::device_memory(c10::kCPU).total;
  profile.attention_efficiency = 0.5;
  profile.attention_backward_efficiency = 0.4;
  profile.launch_ns = 2000;
  profile = measured(profile, /*side=*/512, /*copied_bytes=*/int64_t{16} << 20, [] {});
  profile.link_speed = profile.memory_speed;
  return profile;
}

std::string known_names() {
  std::string names;
  for (const DeviceProfile& known : known_devices()) {
    names += (names.empty() ? "" : ", ") + known.name;
  }
  return names;
}

DeviceProfile this_gpu() {
  const auto& hooks = at::detail::getCUDAHooks();
  TORCH_CHECK(at::globalContext().hasCUDA() && hooks.deviceCount() > 0,
              "[plan] the device cuda is the GPU of this machine, which has none. Name the GPU to "
              "plan for: ",
              known_names());
  at::globalContext().lazyInitDevice(c10::kCUDA);
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  TORCH_CHECK(allocator != nullptr, "[plan] the allocator of this GPU does not report its memory.");
  auto profile = gpu("cuda", /*generation=*/8, /*gibibytes=*/1, 1, 1, 1);
  profile = measured(profile, /*side=*/8192, /*copied_bytes=*/int64_t{1} << 30, [&] {
    hooks.deviceSynchronize(hooks.current_device());
  });
  profile.memory_bytes = static_cast<int64_t>(allocator->getMemoryInfo(0).second);
  profile.product_efficiency = 0.9;  // relative to a product that occupies the whole GPU
  profile.attention_efficiency /= 0.72;
  profile.attention_backward_efficiency /= 0.72;
  return profile;
}

}  // namespace

const std::vector<DeviceProfile>& known_devices() {
  static const std::vector<DeviceProfile> devices = {
      gpu("h200", 9, 141, 989, 67, 4.8),
      gpu("h100", 9, 80, 989, 67, 3.35),
      gpu("a100", 8, 80, 312, 19.5, 2.0),
      gpu("a100-40", 8, 40, 312, 19.5, 1.55),
      gpu("l40s", 8, 46, 362, 91.6, 0.864),
      gpu("rtx4090", 8, 24, 165, 82.6, 1.008),
  };
  return devices;
}

DeviceProfile device_profile(const std::string& name) {
  if (name == "cpu") {
    return this_cpu();
  }
  if (name == "cuda") {
    return this_gpu();
  }
  for (const DeviceProfile& known : known_devices()) {
    if (known.name == name) {
      return known;
    }
  }
  TORCH_CHECK(false,
              "[plan] expected a device among ",
              known_names(),
              ", cpu (this machine) and cuda (its GPU), got \"",
              name,
              "\"");
}

}  // namespace reprise
