// The pool of host memory that regions offload to: pages of one size within a budget, and the
// backend that copies to and from them.
//
// A page stays with the device it was first used for, whose copy stream orders its next use after
// its last one. So giving a page back never has to wait.
#pragma once

#include "checkpoint/offload/backend.h"

#include <reprise/offload.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace reprise::detail {

class HostPool {
 public:
  explicit HostPool(std::shared_ptr<OffloadBackend> pool_backend)
      : backend(std::move(pool_backend)) {}

  /// Pages for `bytes` bytes. Throws, before it allocates any, if they do not fit the budget.
  std::vector<at::Tensor> take(c10::Device device, size_t bytes);
  void give_back(c10::Device device, std::vector<at::Tensor> pages) noexcept;

  void set(const OffloadSettings& settings);
  OffloadSettings settings() const;
  OffloadUse use() const;
  void trim();

  const std::shared_ptr<OffloadBackend> backend;

 private:
  int64_t budget() const;
  void check_budget(c10::Device device, size_t wanted_bytes, size_t new_pages) const;
  int64_t bytes_of_pages(size_t pages) const {
    return static_cast<int64_t>(pages * backend->page_bytes());
  }

  mutable std::mutex mutex_;
  OffloadSettings settings_;
  std::map<c10::DeviceIndex, std::vector<at::Tensor>> free_pages_;
  size_t allocated_ = 0;  // pages, as are the next two
  size_t in_use_ = 0;
  size_t peak_in_use_ = 0;
};

/// The process's pool.
std::shared_ptr<HostPool> host_pool();

/// Gives the process a new pool over `backend`; null: over the default one. Groups that were
/// offloaded before keep the pool they have. Lets programs without a GPU run the offload code.
REPRISE_API void set_offload_backend(std::shared_ptr<OffloadBackend> backend);

}  // namespace reprise::detail
