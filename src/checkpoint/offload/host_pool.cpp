#include "checkpoint/offload/host_pool.h"

#include "checkpoint/ops/engine_ops.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace detail {
namespace {

/// Half of the machine's memory, which leaves the rest to the program and its data.
int64_t default_budget() {
  return sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
}

struct Current {
  std::mutex mutex;
  std::shared_ptr<HostPool> pool = std::make_shared<HostPool>(make_stream_backend());
};

Current& current() {
  // Never destroyed: pinned pages cannot be freed once the device's driver has shut down.
  static auto& instance = *std::make_unique<Current>().release();
  return instance;
}

}  // namespace

int64_t HostPool::budget() const {
  return settings_.host_budget > 0 ? settings_.host_budget : default_budget();
}

void HostPool::check_budget(c10::Device device, size_t wanted_bytes, size_t new_pages) const {
  TORCH_CHECK(bytes_of_pages(allocated_ + new_pages) <= budget(),
              "[offload] ",
              wanted_bytes,
              " bytes of ",
              device,
              " need ",
              bytes_of_pages(new_pages),
              " more bytes of host memory, but its budget is ",
              budget(),
              " bytes, of which ",
              bytes_of_pages(in_use_),
              " hold tensors: raise the host budget (reprise::set_offload_settings) or offload "
              "less.");
}

std::vector<at::Tensor> HostPool::take(c10::Device device, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const size_t count = (bytes + backend->page_bytes() - 1) / backend->page_bytes();
  auto& spare = free_pages_[device.index()];
  const size_t missing = count - std::min(count, spare.size());
  if (missing > 0 && bytes_of_pages(allocated_ + missing) > budget()) {
    for (auto& [owner, pages] : free_pages_) {
      if (owner != device.index()) {
        allocated_ -= pages.size();
        pages.clear();
      }
    }
    check_budget(device, bytes, missing);
  }
  const EngineOpsGuard guard;
  while (spare.size() < count) {
    spare.push_back(backend->make_page());
    ++allocated_;
  }
  std::vector<at::Tensor> pages(spare.end() - static_cast<std::ptrdiff_t>(count), spare.end());
  spare.resize(spare.size() - count);
  in_use_ += count;
  peak_in_use_ = std::max(peak_in_use_, in_use_);
  return pages;
}

void HostPool::give_back(c10::Device device, std::vector<at::Tensor> pages) noexcept {
  const std::scoped_lock lock(mutex_);
  in_use_ -= pages.size();
  auto& spare = free_pages_[device.index()];
  for (auto& page : pages) {
    spare.push_back(std::move(page));
  }
}

void HostPool::set(const OffloadSettings& settings) {
  TORCH_CHECK(settings.host_budget >= 0,
              "[offload] the host budget is a number of bytes, or 0 for half of the machine's "
              "memory; found ",
              settings.host_budget);
  const std::scoped_lock lock(mutex_);
  TORCH_CHECK(settings.host_budget == 0 || bytes_of_pages(in_use_) <= settings.host_budget,
              "[offload] ",
              bytes_of_pages(in_use_),
              " bytes of host memory hold tensors, so the budget cannot be ",
              settings.host_budget,
              ". Set it between training steps.");
  settings_ = settings;
  bool has_freed = false;
  for (auto& [owner, pages] : free_pages_) {
    while (!pages.empty() && bytes_of_pages(allocated_) > budget()) {
      pages.pop_back();
      --allocated_;
      has_freed = true;
    }
  }
  if (has_freed) {
    backend->empty_cache();
  }
}

OffloadSettings HostPool::settings() const {
  const std::scoped_lock lock(mutex_);
  return settings_;
}

OffloadUse HostPool::use() const {
  const std::scoped_lock lock(mutex_);
  return {bytes_of_pages(allocated_), bytes_of_pages(in_use_), bytes_of_pages(peak_in_use_)};
}

void HostPool::trim() {
  const std::scoped_lock lock(mutex_);
  const bool had_pages = allocated_ > in_use_;
  free_pages_.clear();
  allocated_ = in_use_;
  peak_in_use_ = in_use_;
  if (had_pages) {
    backend->empty_cache();
  }
}

std::shared_ptr<HostPool> host_pool() {
  const std::scoped_lock lock(current().mutex);
  return current().pool;
}

void set_offload_backend(std::shared_ptr<OffloadBackend> backend) {
  auto fresh = std::make_shared<HostPool>(backend ? std::move(backend) : make_stream_backend());
  const std::scoped_lock lock(current().mutex);
  current().pool = std::move(fresh);
}

}  // namespace detail

void set_offload_settings(const OffloadSettings& settings) {
  detail::host_pool()->set(settings);
}

OffloadSettings offload_settings() {
  return detail::host_pool()->settings();
}

OffloadUse offload_use() {
  return detail::host_pool()->use();
}

void trim_offload_memory() {
  detail::host_pool()->trim();
}

}  // namespace reprise
