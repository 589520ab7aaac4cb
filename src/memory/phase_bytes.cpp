// A table has the size and the phase of every block that was allocated since the start: backward
// frees blocks of all phases, in any order.
#include "memory/phase_bytes.h"

#include <reprise/memory.h>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace reprise::memory {

class PhaseBytes::Table {
 public:
  /// `guard` protects it: one lock for all tables of the CPU.
  Table(c10::Device on, std::mutex& guard) : device(on), mutex(guard), start_(live_bytes(on)) {
    peak_.live = start_;
  }

  void begin(Phase phase) {
    const std::scoped_lock lock(mutex);
    phase_ = phase;
  }

  void set_aside(int64_t bytes) {
    const std::scoped_lock lock(mutex);
    aside_ += bytes;
  }

  /// The caller holds the lock.
  void allocated(const void* data, int64_t bytes, int64_t live) {
    blocks_.insert_or_assign(data, Block{bytes, phase_});
    bytes_of(phase_) += bytes;
    most_activations_ = std::max(most_activations_, live - start_ - aside_);
    if (live > peak_.live) {
      peak_ = {phase_, live, bytes_of(Phase::Forward), bytes_of(Phase::Loss), aside_};
    }
  }

  /// The caller holds the lock.
  void freed(const void* data) {
    if (const auto found = blocks_.find(data); found != blocks_.end()) {
      bytes_of(found->second.phase) -= found->second.bytes;
      blocks_.erase(found);
    }
  }

  Moment peak() const {
    const std::scoped_lock lock(mutex);
    return peak_;
  }

  int64_t most_activations() const {
    const std::scoped_lock lock(mutex);
    return most_activations_;
  }

  const c10::Device device;
  std::mutex& mutex;

 private:
  struct Block {
    int64_t bytes;
    Phase phase;
  };

  int64_t& bytes_of(Phase phase) { return bytes_[static_cast<size_t>(phase)]; }

  const int64_t start_;
  Phase phase_ = Phase::Forward;
  ska::flat_hash_map<const void*, Block> blocks_;
  std::array<int64_t, 3> bytes_{};
  int64_t aside_ = 0;
  int64_t most_activations_ = 0;
  Moment peak_;
};

namespace {

struct CpuTables {
  std::mutex mutex;
  std::vector<PhaseBytes::Table*> list;
};

CpuTables& cpu_tables() {
  // Never destroyed: tensors with static storage duration are freed at exit.
  static auto* tables = new CpuTables();  // allow: owning-new
  return *tables;
}

}  // namespace

namespace phase_bytes {

std::atomic<int64_t> counts{0};

void cpu_allocated(const void* data, int64_t bytes, int64_t live) {
  const std::scoped_lock lock(cpu_tables().mutex);
  for (PhaseBytes::Table* table : cpu_tables().list) {
    table->allocated(data, bytes, live);
  }
}

void cpu_freed(const void* data) {
  const std::scoped_lock lock(cpu_tables().mutex);
  for (PhaseBytes::Table* table : cpu_tables().list) {
    table->freed(data);
  }
}

}  // namespace phase_bytes

/// Hears of a device's allocations, and passes them on to whoever listened before.
class PhaseBytes::Reporting {
 public:
  explicit Reporting(Table& table)
      : reporter_(std::make_shared<Reporter>(table)),
        in_force_(c10::DebugInfoKind::PROFILER_STATE, reporter_) {}
  ~Reporting() { reporter_->stop(); }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

 private:
  class Reporter final : public torch::profiler::impl::ProfilerStateBase {
   public:
    explicit Reporter(Table& table)
        : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
              torch::profiler::impl::ProfilerState::Disabled)),
          table_(&table),
          around_(c10::ThreadLocalDebugInfo::current()),
          outer_(dynamic_cast<c10::MemoryReportingInfoBase*>(
              c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))) {}

    void reportMemoryUsage(
        void* data, int64_t bytes, size_t live, size_t reserved, c10::Device device) override {
      if (outer_ != nullptr) {
        outer_->reportMemoryUsage(data, bytes, live, reserved, device);  // may refuse
      }
      const std::scoped_lock lock(mutex_);
      const bool is_ours =
          table_ != nullptr && device.type() == table_->device.type() &&
          (!table_->device.has_index() || device.index() == table_->device.index());
      if (!is_ours) {
        return;
      }
      const std::scoped_lock of_table(table_->mutex);
      if (bytes > 0) {
        table_->allocated(data, bytes, static_cast<int64_t>(live));
      } else {
        table_->freed(data);
      }
    }

    torch::profiler::impl::ActiveProfilerType profilerType() override {
      return torch::profiler::impl::ActiveProfilerType::NONE;
    }

    /// A graph task may hold the reporter for longer than the table lives.
    void stop() {
      const std::scoped_lock lock(mutex_);
      table_ = nullptr;
    }

   private:
    std::mutex mutex_;
    Table* table_;
    const std::shared_ptr<c10::ThreadLocalDebugInfo> around_;  // owns outer_
    c10::MemoryReportingInfoBase* const outer_;
  };

  std::shared_ptr<Reporter> reporter_;
  c10::DebugInfoGuard in_force_;
};

PhaseBytes::PhaseBytes(c10::Device device) {
  if (device.is_cpu()) {
    table_ = std::make_unique<Table>(device, cpu_tables().mutex);
    const std::scoped_lock lock(cpu_tables().mutex);
    cpu_tables().list.push_back(table_.get());
    phase_bytes::counts.fetch_add(1);
  } else {
    mutex_ = std::make_unique<std::mutex>();
    table_ = std::make_unique<Table>(device, *mutex_);
    reporting_ = std::make_unique<Reporting>(*table_);
  }
}

PhaseBytes::~PhaseBytes() {
  if (table_->device.is_cpu()) {
    const std::scoped_lock lock(cpu_tables().mutex);
    std::erase(cpu_tables().list, table_.get());
    phase_bytes::counts.fetch_sub(1);
  }
}

void PhaseBytes::begin(Phase phase) {
  table_->begin(phase);
}

void PhaseBytes::set_aside(int64_t bytes) {
  table_->set_aside(bytes);
}

PhaseBytes::Moment PhaseBytes::peak() const {
  return table_->peak();
}

int64_t PhaseBytes::most_activations() const {
  return table_->most_activations();
}

}  // namespace reprise::memory
