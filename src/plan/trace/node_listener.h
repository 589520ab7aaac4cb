// Tells a listener when the nodes of a backward begin and end.
#pragma once

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <optional>

namespace reprise::planning {

/// May be called on the threads of the autograd engine.
class NodeListener {
 public:
  virtual void node_begins() = 0;
  virtual void node_ended() = 0;

 protected:
  ~NodeListener() = default;
};

/// While it lives, `listener` hears of every node of the backward calls made on this thread, also
/// where the engine's own threads run them: LibTorch carries thread-local callbacks and debug
/// information there. Other threads may have their own listeners. Guards of a thread may be nested.
class NodeListenerGuard {
 public:
  explicit NodeListenerGuard(std::shared_ptr<NodeListener> listener);
  ~NodeListenerGuard();
  NodeListenerGuard(const NodeListenerGuard&) = delete;
  NodeListenerGuard& operator=(const NodeListenerGuard&) = delete;

 private:
  class Info;
  std::optional<at::CallbackHandle> handle_;  // of the outermost guard
  c10::DebugInfoGuard in_force_;
};

}  // namespace reprise::planning
