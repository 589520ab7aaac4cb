// An offload backend for machines without a GPU: its device is the CPU, and its pages are memory
// that the byte counts of tests do not see.
//
// A lazy one copies as late as it may: when somebody waits. Code that uses, frees or overwrites
// bytes before it waits then gets the wrong ones.
#pragma once

#include "checkpoint/offload/host_pool.h"

#include <reprise/offload.h>

#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace reprise::testing {

class CloneBackend final : public detail::OffloadBackend,
                           public std::enable_shared_from_this<CloneBackend> {
 public:
  CloneBackend(size_t smallest_bytes, bool is_lazy)
      : smallest_bytes_(smallest_bytes), is_lazy_(is_lazy) {}

  bool supports(c10::Device device) const override { return device.is_cpu(); }
  size_t smallest_bytes() const override { return smallest_bytes_; }
  size_t page_bytes() const override { return size_t{64} << 10; }
  at::Tensor make_page() const override {
    return at::from_blob(
        std::malloc(page_bytes()), {static_cast<int64_t>(page_bytes())}, std::free, at::kByte);
  }
  void empty_cache() const override {}

  std::unique_ptr<detail::CopyEvent> begin(c10::Device,
                                           const std::vector<detail::ByteCopy>& copies) override {
    const std::scoped_lock lock(mutex_);
    if (fails) {
      throw std::runtime_error("the bus is gone");
    }
    for (const auto& [to, from] : copies) {
      // Without references: the caller must keep the bytes alive.
      queue_.push_back({to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes()});
    }
    begun_ += copies.size();
    if (!is_lazy_) {
      run_until(begun_);
    }
    return std::make_unique<Point>(shared_from_this(), begun_);
  }

  bool fails = false;

 private:
  struct Piece {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Point final : detail::CopyEvent {
    Point(std::shared_ptr<CloneBackend> of, size_t copies) : backend(std::move(of)), end(copies) {}
    void wait(const c10::Stream&) const override {
      const std::scoped_lock lock(backend->mutex_);
      backend->run_until(end);
    }
    std::shared_ptr<CloneBackend> backend;
    size_t end;
  };

  void run_until(size_t end) {
    for (; done_ < end; ++done_) {
      std::memcpy(queue_.front().to, queue_.front().from, queue_.front().bytes);
      queue_.pop_front();
    }
  }

  const size_t smallest_bytes_;
  const bool is_lazy_;
  std::mutex mutex_;
  std::deque<Piece> queue_;
  size_t begun_ = 0;
  size_t done_ = 0;
};

/// Makes a backend the process's for its scope.
class BackendScope {
 public:
  explicit BackendScope(std::shared_ptr<detail::OffloadBackend> backend) {
    detail::set_offload_backend(std::move(backend));
  }
  ~BackendScope() { detail::set_offload_backend(nullptr); }
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;
};

}  // namespace reprise::testing
