// The host's side of offloading: pages of one size, a budget, and the tier that copies to them.
//
// A page belongs to the device it was first used for: that device's queue orders its next use after
// its last one. So giving a page back never waits.
#pragma once

#include "checkpoint/offload_tier.h"

#include <reprise/offload.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise::detail {

class Depot {
 public:
  explicit Depot(std::shared_ptr<Tier> depot_tier) : tier(std::move(depot_tier)) {}

  /// Pages for `bytes` bytes. Throws before it makes any if they do not fit into the budget.
  std::vector<at::Tensor> take(c10::Device device, size_t bytes);
  void give_back(c10::Device device, std::vector<at::Tensor> pages) noexcept;

  void set(const OffloadSettings& settings);
  OffloadSettings settings() const;
  OffloadUse use() const;
  void trim();

  const std::shared_ptr<Tier> tier;

 private:
  int64_t budget() const;
  void check_budget(c10::Device device, size_t wanted_bytes, size_t new_pages) const;
  int64_t bytes_of_pages(size_t pages) const {
    return static_cast<int64_t>(pages * tier->page_bytes());
  }

  mutable std::mutex mutex_;
  OffloadSettings settings_;
  std::map<c10::DeviceIndex, std::vector<at::Tensor>> spare_;
  size_t made_ = 0;
  size_t in_use_ = 0;
  size_t peak_ = 0;
};

/// The process's depot.
std::shared_ptr<Depot> depot();

}  // namespace reprise::detail
