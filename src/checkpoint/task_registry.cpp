#include "checkpoint/task_registry.h"

#include "checkpoint/frame.h"

#include <utility>

namespace reprise::detail {

TaskRegistry& TaskRegistry::instance() {
  static TaskRegistry instance;
  return instance;
}

void TaskRegistry::open_group(TaskKey group) {
  const std::scoped_lock lock(mutex_);
  open_groups_.insert(group);
}

bool TaskRegistry::is_open(TaskKey group) {
  const std::scoped_lock lock(mutex_);
  return open_groups_.contains(group);
}

void TaskRegistry::join_group(TaskKey task, TaskKey group) {
  const std::scoped_lock lock(mutex_);
  if (open_groups_.contains(group)) {
    group_of_[task] = group;
    has_groups_.store(true, std::memory_order_relaxed);
  }
}

TaskKey TaskRegistry::group_or_self(TaskKey task) {
  if (!has_groups_.load(std::memory_order_relaxed)) {
    return task;
  }
  const std::scoped_lock lock(mutex_);
  const auto found = group_of_.find(task);
  return found == group_of_.end() ? task : found->second;
}

bool TaskRegistry::add(TaskKey task, TaskKey running, std::weak_ptr<Frame> frame) {
  const std::scoped_lock lock(mutex_);
  const bool has_ended = task >= kFirstGroupKey && !open_groups_.contains(task);
  auto& frames = frames_[has_ended ? running : task];
  frames.push_back({task, std::move(frame)});
  return frames.size() == 1;
}

void TaskRegistry::end(TaskKey task) {
  std::vector<Held> frames;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = frames_.find(task); found != frames_.end()) {
      frames = std::move(found->second);
      frames_.erase(found);
    }
    group_of_.erase(task);
    if (open_groups_.erase(task) > 0) {
      std::erase_if(group_of_, [task](const auto& member) { return member.second == task; });
    }
    has_groups_.store(!group_of_.empty(), std::memory_order_relaxed);
  }
  for (const auto& held : frames) {
    if (const auto frame = held.frame.lock()) {
      frame->forget(held.task);
    }
  }
}

}  // namespace reprise::detail
