// Tells a listener when the nodes of a backward begin and end.
#pragma once

#include <ATen/record_function.h>

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
/// where the engine's own threads run them: LibTorch carries thread-local callbacks there. One
/// guard at a time in the process.
class NodeListenerGuard {
 public:
  explicit NodeListenerGuard(NodeListener* listener);
  ~NodeListenerGuard();
  NodeListenerGuard(const NodeListenerGuard&) = delete;
  NodeListenerGuard& operator=(const NodeListenerGuard&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace reprise::planning
