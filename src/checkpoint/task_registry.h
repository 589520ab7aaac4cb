// Which backward calls run, which recomputed tensors each of them owns, and the groups of calls
// that share theirs.
#pragma once

#include "checkpoint/engine.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace reprise::detail {

// Graph task ids start at 0, but key 0 means "no backward call". Group keys are far above.
constexpr TaskKey kFirstGroupKey = TaskKey{1} << 62;
constexpr TaskKey key_of(uint64_t graph_task_id) {
  return graph_task_id + 1;
}

/// The frames that hold recomputed tensors for each running task, the open groups, and the tasks of
/// each. A group may be destroyed on any thread, also while a task of it runs: from then on the
/// task stands for itself.
class TaskRegistry {
 public:
  /// There is one per process.
  static TaskRegistry& instance();

  void open_group(TaskKey group);
  bool is_open(TaskKey group);
  void join_group(TaskKey task, TaskKey group);
  TaskKey group_or_self(TaskKey task);

  /// `running`: the backward call that has recomputed the frame for `task`, itself or its group.
  /// Returns whether `frame` is the first for the one that it is kept for.
  bool add(TaskKey task, TaskKey running, std::weak_ptr<Frame> frame);
  /// Makes the frames of a task or group forget what they recomputed for it.
  void end(TaskKey task);

 private:
  struct Held {
    TaskKey task;  // for which the frame was recomputed
    std::weak_ptr<Frame> frame;
  };
  std::mutex mutex_;
  std::atomic<bool> has_groups_{false};
  std::unordered_map<TaskKey, std::vector<Held>> frames_;
  std::unordered_map<TaskKey, TaskKey> group_of_;
  std::unordered_set<TaskKey> open_groups_;
};

/// The group that was made last on this thread; 0: none. It is active until it is destroyed, on
/// whatever thread, so the registry knows.
TaskKey active_group();

}  // namespace reprise::detail
