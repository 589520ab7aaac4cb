#include "plan/trace/node_listener.h"

#include <atomic>
#include <memory>

namespace reprise::planning {
namespace {

// A callback is a plain function, so it finds the listener here.
std::atomic<NodeListener*> node_listener{nullptr};

}  // namespace

NodeListenerGuard::NodeListenerGuard(NodeListener* listener) {
  node_listener.store(listener);
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
            node_listener.load()->node_begins();
            return nullptr;
          },
          [](const at::RecordFunction&, at::ObserverContext*) {
            node_listener.load()->node_ended();
          })
          .scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

NodeListenerGuard::~NodeListenerGuard() {
  at::removeCallback(handle_);
  node_listener.store(nullptr);
}

}  // namespace reprise::planning
