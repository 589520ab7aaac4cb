#include "checkpoint/live_tensors.h"

#include "checkpoint/bytes_text.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <iomanip>
#include <new>
#include <sstream>
#include <string_view>

namespace reprise {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return true;
  }
  const std::string_view text = error.what();
  return text.find("DefaultCPUAllocator: ") != std::string_view::npos &&
         text.find("allocate memory") != std::string_view::npos;
}

namespace detail {
namespace {

/// Where this thread's operators run, and who notes what they make.
struct LivePlace {
  LiveTensorsPtr log;
  std::string region;
  const char* phase = nullptr;  // null outside of regions
};
thread_local LivePlace live_place;

const char* current_phase() {
  if (live_place.phase != nullptr) {
    return live_place.phase;
  }
  return torch::autograd::get_current_graph_task_id() >= 0 ? "backward" : "forward";
}

std::string place_of(const LiveTensorGroup& group) {
  const std::string region = group.region.empty() ? "outside of regions" : group.region;
  return group.phase == "forward" ? region : region + ", " + group.phase;
}

}  // namespace

const LiveTensorsPtr& live_tensors() {
  return live_place.log;
}

size_t LiveTensors::maker_of(const c10::OperatorHandle& op) {
  const char* const phase = current_phase();
  auto place = live_place.region + "\n" + phase;
  const auto [found, is_new] =
      maker_numbers_.try_emplace({op_id(op), std::move(place)}, makers_.size());
  if (is_new) {
    makers_.push_back({.region = live_place.region, .phase = phase, .op = display_name(op)});
  }
  return found->second;
}

void LiveTensors::made(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& info = op_info(op);
  if (info.writes_arguments || info.returns_view || info.hides_view) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  const size_t maker = maker_of(op);
  const size_t results = op.schema().returns().size();
  for (size_t i = stack.size() - results; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      add(stack[i].toTensor(), maker);
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorList()) {
        add(tensor, maker);
      }
    }
  }
}

void LiveTensors::add(const at::Tensor& tensor, size_t maker) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  const auto* const storage = tensor.storage().unsafeGetStorageImpl();
  // A known one is alive, because it is here: its address cannot have been used again.
  storages_.try_emplace(storage, Entry{tensor.storage().getWeakStorageImpl(), maker});
  if (storages_.size() < prune_at_) {
    return;
  }
  std::erase_if(storages_, [](const auto& entry) { return entry.second.storage.expired(); });
  prune_at_ = std::max<size_t>(1024, 2 * storages_.size());
}

std::vector<LiveTensorGroup> LiveTensors::groups() const {
  const std::scoped_lock lock(mutex_);
  auto groups = makers_;
  for (const auto& [address, entry] : storages_) {
    if (const auto storage = entry.storage.lock()) {
      ++groups[entry.maker].count;
      groups[entry.maker].bytes += static_cast<int64_t>(storage->nbytes());
    }
  }
  std::erase_if(groups, [](const LiveTensorGroup& group) { return group.bytes == 0; });
  std::stable_sort(
      groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return groups;
}

std::string table_of(const std::vector<LiveTensorGroup>& groups, size_t lines) {
  int64_t bytes = 0;
  size_t count = 0;
  for (const auto& group : groups) {
    bytes += group.bytes;
    count += group.count;
  }
  std::ostringstream table;
  table << "Live tensors that operators have made: " << count << ", " << bytes_text(bytes)
        << ". The largest, with the operator and the region that made them:";
  const auto line = [&table](int64_t size, size_t number) -> std::ostream& {
    return table << "\n" << std::setw(12) << bytes_text(size) << std::setw(7) << number << " x ";
  };
  const size_t shown = std::min(lines, groups.size());
  for (size_t i = 0; i < shown; ++i) {
    line(groups[i].bytes, groups[i].count) << groups[i].op << ", " << place_of(groups[i]);
    bytes -= groups[i].bytes;
    count -= groups[i].count;
  }
  if (shown < groups.size()) {
    line(bytes, count) << "others";
  }
  return table.str();
}

LiveRegionGuard::LiveRegionGuard(LiveTensorsPtr live, const std::string& label, const char* phase)
    : previous_(live_place.log),
      previous_region_(live_place.region),
      previous_phase_(live_place.phase) {
  live_place = {std::move(live), label, phase};
}

LiveRegionGuard::~LiveRegionGuard() {
  live_place = {std::move(previous_), std::move(previous_region_), previous_phase_};
}

}  // namespace detail

struct LiveTensorReport::Scope {
  Scope() : log(std::make_shared<detail::LiveTensors>()), keys(detail::kObserverKeys) {}
  const detail::LiveTensorsPtr log;
  const c10::impl::IncludeDispatchKeyGuard keys;
};

LiveTensorReport::LiveTensorReport() {
  if (detail::live_place.log != nullptr || detail::live_place.phase != nullptr) {
    throw CheckpointError(
        "[reprise] a LiveTensorReport exists on this thread already, or a region runs on it.");
  }
  scope_ = std::make_unique<Scope>();
  detail::live_place.log = scope_->log;
}

LiveTensorReport::~LiveTensorReport() {
  detail::live_place.log = nullptr;
}

std::vector<LiveTensorGroup> LiveTensorReport::groups() const {
  return scope_->log->groups();
}

std::string LiveTensorReport::report(size_t lines) const {
  return detail::table_of(groups(), lines);
}

}  // namespace reprise
