#include "plan/trace/node_listener.h"

#include "checkpoint/torch_versions.h"

#include <utility>

namespace reprise::planning {

using detail::kNodeListenerKind;

/// A callback is a plain function, so it finds the listeners here.
class NodeListenerGuard::Info final : public c10::DebugInfoBase {
 public:
  explicit Info(std::shared_ptr<NodeListener> listener)
      : listener_(std::move(listener)), around_(c10::ThreadLocalDebugInfo::current()) {
    outer_ = current();
  }

  static Info* current() {
    return dynamic_cast<Info*>(c10::ThreadLocalDebugInfo::get(kNodeListenerKind));
  }

  template <class Tell>
  static void tell_all(const Tell& tell) {
    for (Info* info = current(); info != nullptr; info = info->outer_) {
      tell(*info->listener_);
    }
  }

 private:
  const std::shared_ptr<NodeListener> listener_;
  const std::shared_ptr<c10::ThreadLocalDebugInfo> around_;  // owns outer_
  Info* outer_ = nullptr;
};

NodeListenerGuard::NodeListenerGuard(std::shared_ptr<NodeListener> listener)
    : handle_(Info::current() == nullptr
                  ? std::optional(at::addThreadLocalCallback(
                        at::RecordFunctionCallback(
                            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                              Info::tell_all([](NodeListener& each) { each.node_begins(); });
                              return nullptr;
                            },
                            [](const at::RecordFunction&, at::ObserverContext*) {
                              Info::tell_all([](NodeListener& each) { each.node_ended(); });
                            })
                            .scopes({at::RecordScope::BACKWARD_FUNCTION})))
                  : std::nullopt),
      in_force_(kNodeListenerKind, std::make_shared<Info>(std::move(listener))) {}

NodeListenerGuard::~NodeListenerGuard() {
  if (handle_) {
    at::removeCallback(*handle_);
  }
}

}  // namespace reprise::planning
