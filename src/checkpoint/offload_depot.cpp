#include "checkpoint/offload_depot.h"

#include "checkpoint/engine_ops.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace detail {
namespace {

/// Half of it, so that the program and its data have the rest.
int64_t default_budget() {
  return sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
}

struct Current {
  std::mutex mutex;
  std::shared_ptr<Depot> depot = std::make_shared<Depot>(make_stream_tier());
};

Current& current() {
  // Never destroyed: pinned pages cannot be freed once the device's driver has shut down.
  static auto& instance = *std::make_unique<Current>().release();
  return instance;
}

}  // namespace

int64_t Depot::budget() const {
  return settings_.host_budget > 0 ? settings_.host_budget : default_budget();
}

void Depot::check_budget(c10::Device device, size_t wanted_bytes, size_t new_pages) const {
  TORCH_CHECK(bytes_of_pages(made_ + new_pages) <= budget(),
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

std::vector<at::Tensor> Depot::take(c10::Device device, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const size_t count = (bytes + tier->page_bytes() - 1) / tier->page_bytes();
  auto& spare = spare_[device.index()];
  const size_t missing = count - std::min(count, spare.size());
  if (missing > 0 && bytes_of_pages(made_ + missing) > budget()) {
    for (auto& [owner, pages] : spare_) {
      if (owner != device.index()) {
        made_ -= pages.size();
        pages.clear();
      }
    }
    check_budget(device, bytes, missing);
  }
  const EngineOpsGuard guard;
  while (spare.size() < count) {
    spare.push_back(tier->make_page());
    ++made_;
  }
  std::vector<at::Tensor> pages(spare.end() - static_cast<std::ptrdiff_t>(count), spare.end());
  spare.resize(spare.size() - count);
  in_use_ += count;
  peak_ = std::max(peak_, in_use_);
  return pages;
}

void Depot::give_back(c10::Device device, std::vector<at::Tensor> pages) noexcept {
  const std::scoped_lock lock(mutex_);
  in_use_ -= pages.size();
  auto& spare = spare_[device.index()];
  for (auto& page : pages) {
    spare.push_back(std::move(page));
  }
}

void Depot::set(const OffloadSettings& settings) {
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
  for (auto& [owner, pages] : spare_) {
    while (!pages.empty() && bytes_of_pages(made_) > budget()) {
      pages.pop_back();
      --made_;
      has_freed = true;
    }
  }
  if (has_freed) {
    tier->empty_cache();
  }
}

OffloadSettings Depot::settings() const {
  const std::scoped_lock lock(mutex_);
  return settings_;
}

OffloadUse Depot::use() const {
  const std::scoped_lock lock(mutex_);
  return {bytes_of_pages(made_), bytes_of_pages(in_use_), bytes_of_pages(peak_)};
}

void Depot::trim() {
  const std::scoped_lock lock(mutex_);
  const bool had_pages = made_ > in_use_;
  spare_.clear();
  made_ = in_use_;
  peak_ = in_use_;
  if (had_pages) {
    tier->empty_cache();
  }
}

std::shared_ptr<Depot> depot() {
  const std::scoped_lock lock(current().mutex);
  return current().depot;
}

void set_tier_for_tests(std::shared_ptr<Tier> tier) {
  auto fresh = std::make_shared<Depot>(tier ? std::move(tier) : make_stream_tier());
  const std::scoped_lock lock(current().mutex);
  current().depot = std::move(fresh);
}

}  // namespace detail

void set_offload_settings(const OffloadSettings& settings) {
  detail::depot()->set(settings);
}

OffloadSettings offload_settings() {
  return detail::depot()->settings();
}

OffloadUse offload_use() {
  return detail::depot()->use();
}

void trim_offload_memory() {
  detail::depot()->trim();
}

}  // namespace reprise
