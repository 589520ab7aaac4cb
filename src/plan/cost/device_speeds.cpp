#include "plan/cost/device_speeds.h"

#include "checkpoint/offload/compressed.h"
#include "checkpoint/offload/group.h"
#include "checkpoint/offload/host_pool.h"
#include "checkpoint/offload/placeholder.h"
#include "checkpoint/ops/engine_ops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace reprise::planning {
namespace {

constexpr size_t kMostCopied = size_t{64} << 20;
constexpr size_t kMostPages = 8;
// Large enough for the work to take longer than its launches.
constexpr int64_t kSmall = int64_t{64} << 10, kLargeOnCpu = int64_t{1} << 20,
                  kLarge = int64_t{64} << 20;

void wait_for(c10::Device device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(detail::current_stream(device));
  }
}

/// The shortest of a few runs, because the first ones load kernels and allocate pages.
double nanoseconds_of(c10::Device device, const std::function<void()>& work) {
  constexpr int kRuns = 4;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    wait_for(device);
    const auto start = std::chrono::steady_clock::now();
    work();
    wait_for(device);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return std::max(best, 1.0);
}

LinkCosts measure_link(c10::Device device) {
  const auto backend = detail::host_pool()->backend;
  const size_t page = backend->page_bytes();
  const size_t pages = std::clamp<size_t>(kMostCopied / page, 1, kMostPages);
  const auto memory =
      at::empty({static_cast<int64_t>(pages * page)}, at::TensorOptions(device).dtype(at::kByte));
  std::vector<detail::ByteCopy> out, back;
  for (size_t i = 0; i < pages; ++i) {
    const auto host = backend->make_page();
    const auto piece = memory.narrow(0, static_cast<int64_t>(i * page), static_cast<int64_t>(page));
    out.push_back({host, piece});
    back.push_back({piece, host});
  }
  const auto bytes_per_second = [&](const std::vector<detail::ByteCopy>& copies) {
    const double ns = nanoseconds_of(
        device, [&] { backend->begin(device, copies)->wait(detail::current_stream(device)); });
    return static_cast<double>(pages * page) / ns * 1e9;
  };
  return {.out_bytes_per_second = bytes_per_second(out),
          .in_bytes_per_second = bytes_per_second(back),
          .page_bytes = static_cast<int64_t>(page)};
}

Pace measure_compression(c10::Device device, c10::ScalarType dtype) {
  const auto time_of = [&](int64_t bytes) {
    const auto count = bytes / static_cast<int64_t>(c10::elementSize(dtype));
    const auto tensor = at::zeros({count}, at::TensorOptions(device).dtype(dtype));
    return nanoseconds_of(
        device, [&] { detail::Compressed(tensor).restore(detail::placeholder_for(tensor)); });
  };
  const int64_t most = device.is_cpu() ? kLargeOnCpu : kLarge;
  const double small = time_of(kSmall), large = time_of(most);
  const double slope = std::max(0.0, (large - small) / static_cast<double>(most - kSmall));
  return {.ns = std::max(0.0, small - slope * static_cast<double>(kSmall)), .ns_per_byte = slope};
}

}  // namespace

DeviceSpeeds measure_speeds(c10::Device device, const SpeedsWanted& wanted) {
  const detail::EngineOpsGuard guard;
  const at::NoGradGuard no_grad;
  DeviceSpeeds speeds;
  if (wanted.link) {
    speeds.link = measure_link(device);
  }
  if (wanted.masks) {
    speeds.masks = measure_compression(device, at::kBool);
  }
  if (wanted.floating) {
    speeds.floating = measure_compression(device, at::kFloat);
  }
  return speeds;
}

}  // namespace reprise::planning
