// Note [Blocks have owners]
// The CPU's allocator cannot store an owner with a block (Note [Sizes are asked back]), so while
// somebody counts, a table has the owner of every block that was allocated since. A GPU's allocator
// reports to the thread (Note [How a device's allocations are observed]), so there the table is the
// count's own.
#include "memory/thread_bytes.h"

#include "memory/byte_count.h"

#include <reprise/memory.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::memory {

class ThreadBytes::Count {
 public:
  Count(c10::Device on, Count* around) : device(on), outer(around) {}

  void add(int64_t size) {
    for (Count* count = this; count != nullptr; count = count->outer) {
      const int64_t live = count->bytes.add(size);
      if (size > 0) {
        count->bytes.raise_peak(live);
      }
    }
  }

  const c10::Device device;
  Count* const outer;  // of the same thread and device
  ByteCount bytes;
  int64_t limit = std::numeric_limits<int64_t>::max();  // read and written under the table's lock
  uint64_t begun = 0;  // number of the first block that is not older
};

namespace {

using Count = ThreadBytes::Count;

thread_local Count* cpu_count = nullptr;
thread_local Count* meta_count = nullptr;

Count*& count_of_thread(c10::Device device) {
  return device.is_meta() ? meta_count : cpu_count;
}

struct Blocks {
  struct Block {
    Count* owner;  // null: nobody who counts
    uint64_t number;
  };

  /// The thread's count, or that of the loop that the thread works for.
  Count* current() const {
    if (cpu_count != nullptr) {
      return cpu_count;
    }
    const bool is_worker = at::in_parallel_region() && at::get_thread_num() != 0;
    return is_worker && threads.size() == 1 ? threads.front().second : nullptr;
  }

  void begin(Count& count) {
    const std::scoped_lock lock(mutex);
    count.begun = next;
    if (count.outer == nullptr) {
      threads.emplace_back(&count, &count);
    } else {
      innermost(*count.outer) = &count;
    }
  }

  void end(Count& count) {
    const std::scoped_lock lock(mutex);
    if (count.outer == nullptr) {
      std::erase_if(threads, [&](const auto& thread) { return thread.first == &count; });
    } else {
      innermost(count) = count.outer;
    }
    if (threads.empty()) {
      blocks.clear();
      return;
    }
    for (auto& [data, block] : blocks) {
      block.owner = block.owner == &count ? count.outer : block.owner;
    }
  }

  Count*& innermost(Count& count) {
    Count* outermost = &count;
    while (outermost->outer != nullptr) {
      outermost = outermost->outer;
    }
    return std::find_if(threads.begin(),
                        threads.end(),
                        [&](const auto& thread) { return thread.first == outermost; })
        ->second;
  }

  std::mutex mutex;
  std::vector<std::pair<Count*, Count*>> threads;  // outermost and innermost count of each
  std::unordered_map<const void*, Block> blocks;
  uint64_t next = 0;
};

Blocks& cpu_blocks() {
  // Never destroyed: tensors with static storage duration are freed at exit.
  static auto* blocks = new Blocks();  // allow: owning-new
  return *blocks;
}

}  // namespace

namespace thread_bytes {

std::atomic<int64_t> counts{0};

void check_cpu_limit(int64_t bytes) {
  Blocks& table = cpu_blocks();
  const std::scoped_lock lock(table.mutex);
  for (const Count* count = table.current(); count != nullptr; count = count->outer) {
    const int64_t live = count->bytes.live() + bytes;
    TORCH_CHECK_WITH(OutOfMemoryError,
                     live <= count->limit,
                     "[memory] a tensor of ",
                     bytes,
                     " bytes on cpu would bring the step to ",
                     live,
                     " bytes; its budget is ",
                     count->limit,
                     ".");
  }
}

void cpu_allocated(const void* data, int64_t bytes) {
  Blocks& table = cpu_blocks();
  const std::scoped_lock lock(table.mutex);
  if (table.threads.empty()) {
    return;
  }
  Count* owner = table.current();
  table.blocks.insert_or_assign(data, Blocks::Block{owner, table.next++});
  if (owner != nullptr) {
    owner->add(bytes);
  }
}

void cpu_freed(const void* data, int64_t bytes) {
  Blocks& table = cpu_blocks();
  const std::scoped_lock lock(table.mutex);
  const auto found = table.blocks.find(data);
  const bool is_known = found != table.blocks.end();
  Count* const owner = is_known ? found->second.owner : nullptr;
  if (owner != nullptr) {
    owner->add(-bytes);
  }
  for (Count* count = cpu_count; count != nullptr && count != owner; count = count->outer) {
    if (!is_known || found->second.number < count->begun) {
      count->bytes.subtract(bytes);
    }
  }
  if (is_known) {
    table.blocks.erase(found);
  }
}

void meta_allocated(int64_t bytes) {
  if (meta_count != nullptr) {
    meta_count->add(bytes);
  }
}

void meta_freed(int64_t bytes) {
  if (meta_count != nullptr) {
    meta_count->add(-bytes);
  }
}

}  // namespace thread_bytes

/// Hears of a device's allocations, and passes them on to whoever listened before.
class ThreadBytes::Reporter final : public torch::profiler::impl::ProfilerStateBase {
 public:
  explicit Reporter(Count& count)
      : ProfilerStateBase(
            torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::Disabled)),
        count_(&count),
        around_(c10::ThreadLocalDebugInfo::current()),
        outer_(dynamic_cast<c10::MemoryReportingInfoBase*>(
            c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))) {}

  void reportMemoryUsage(
      void* data, int64_t bytes, size_t live, size_t reserved, c10::Device device) override {
    if (outer_ != nullptr) {
      outer_->reportMemoryUsage(data, bytes, live, reserved, device);  // may refuse
    }
    const std::scoped_lock lock(mutex_);
    const bool is_ours = count_ != nullptr && device.type() == count_->device.type() &&
                         (!count_->device.has_index() || device.index() == count_->device.index());
    if (is_ours) {
      count_->add(bytes);
    }
  }

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  /// The count is over. A graph task may hold the reporter for longer.
  void stop() {
    const std::scoped_lock lock(mutex_);
    count_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Count* count_;
  const std::shared_ptr<c10::ThreadLocalDebugInfo> around_;  // owns outer_
  c10::MemoryReportingInfoBase* const outer_;
};

class ThreadBytes::Reporting {
 public:
  explicit Reporting(Count& count)
      : reporter_(std::make_shared<Reporter>(count)),
        in_force_(c10::DebugInfoKind::PROFILER_STATE, reporter_) {}
  ~Reporting() { reporter_->stop(); }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

 private:
  std::shared_ptr<Reporter> reporter_;
  c10::DebugInfoGuard in_force_;
};

ThreadBytes::ThreadBytes(c10::Device device) {
  live_bytes(device);  // throws if nothing is counted there
  if (device.is_cpu() || device.is_meta()) {
    Count*& current = count_of_thread(device);
    count_ = std::make_unique<Count>(device, current);
    if (device.is_cpu()) {
      cpu_blocks().begin(*count_);
      thread_bytes::counts.fetch_add(1);
    }
    current = count_.get();
  } else {
    count_ = std::make_unique<Count>(device, nullptr);
    reporting_ = std::make_unique<Reporting>(*count_);
  }
}

ThreadBytes::~ThreadBytes() {
  const c10::Device device = count_->device;
  if (reporting_ != nullptr) {
    return;
  }
  count_of_thread(device) = count_->outer;
  if (device.is_cpu()) {
    thread_bytes::counts.fetch_sub(1);
    cpu_blocks().end(*count_);
  }
}

int64_t ThreadBytes::live() const {
  return count_->bytes.live();
}

int64_t ThreadBytes::peak() const {
  return count_->bytes.peak();
}

void ThreadBytes::reset_peak() {
  count_->bytes.set_peak(std::numeric_limits<int64_t>::min());
}

void ThreadBytes::set_limit(int64_t bytes) {
  TORCH_CHECK(count_->device.is_cpu(), "[memory] expected a count of CPU bytes to limit");
  const std::scoped_lock lock(cpu_blocks().mutex);
  count_->limit = bytes;
}

void ThreadBytes::raise_limit(int64_t bytes) {
  const std::scoped_lock lock(cpu_blocks().mutex);
  if (count_->limit != std::numeric_limits<int64_t>::max()) {
    count_->limit += bytes;
  }
}

}  // namespace reprise::memory
