// Backward calls that share what they recompute.
#include "checkpoint/task_registry.h"

#include <reprise/checkpoint.h>
#include <reprise/detail/host_language.h>

#include <c10/util/Exception.h>

#include <atomic>

namespace reprise {

namespace detail {
namespace {

thread_local TaskKey group_of_thread = 0;

}  // namespace

TaskKey active_group() {
  return group_of_thread;
}

uint64_t open_graph_exec_group() {
  static std::atomic<TaskKey> next{kFirstGroupKey};
  const TaskKey group = next++;
  TaskRegistry::instance().open_group(group);
  return group;
}

void end_graph_exec_group(uint64_t group) {
  TaskRegistry::instance().end(group);
}

}  // namespace detail

GraphExecGroup::GraphExecGroup() {
  const auto outer = detail::active_group();
  TORCH_CHECK(outer == 0 || !detail::TaskRegistry::instance().is_open(outer),
              "[reprise] a GraphExecGroup is already active on this thread; groups do not nest.");
  id_ = detail::open_graph_exec_group();
  detail::group_of_thread = id_;
}

GraphExecGroup::~GraphExecGroup() {
  detail::end_graph_exec_group(id_);
}

}  // namespace reprise
