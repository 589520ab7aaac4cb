#include "plan/measure/activation_counter.h"

#include "memory/cpu_counter.h"
#include "memory/meta_counter.h"

namespace reprise::planning {
namespace {

constexpr int64_t kCudaRounding = 512;

}  // namespace

int64_t counted_bytes(const c10::Storage& storage, c10::Device device) {
  if (!storage || storage.device().type() != device.type() ||
      (device.has_index() && storage.device().index() != device.index())) {
    return 0;
  }
  if (device.is_cpu()) {
    return memory::CpuCounter::size_of(storage.data());
  }
  return rounded_bytes(static_cast<int64_t>(storage.nbytes()), device);
}

int64_t rounded_bytes(int64_t bytes, c10::Device device) {
  if (device.is_meta()) {
    return memory::MetaCounter::rounded(static_cast<size_t>(bytes));
  }
  return device.is_cpu() ? bytes : (bytes + kCudaRounding - 1) / kCudaRounding * kCudaRounding;
}

ActivationCounter::ActivationCounter(c10::Device device)
    : device_(device.is_cpu() ? c10::Device(c10::kCPU) : device), bytes_(device_) {}

int64_t ActivationCounter::now() const {
  return bytes_.live() - aside_;
}

int64_t ActivationCounter::cut() {
  const int64_t peak = bytes_.peak() - aside_;
  bytes_.reset_peak();
  return peak;
}

void ActivationCounter::set_aside(const c10::Storage& storage) {
  if (storage && seen_.insert(storage.unsafeGetStorageImpl()).second) {
    set_aside_.push_back(storage.getWeakStorageImpl());
    set_aside(counted_bytes(storage, device_));
  }
}

void ActivationCounter::set_aside(int64_t bytes) {
  aside_ += bytes;
  bytes_.raise_limit(bytes);
}

}  // namespace reprise::planning
