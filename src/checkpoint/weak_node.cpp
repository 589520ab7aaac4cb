#include "checkpoint/weak_node.h"

#include "checkpoint/owned_mutex.h"

#include <reprise/detail/host_language.h>

#include <c10/util/Exception.h>

#include <mutex>
#include <optional>

namespace reprise::detail {

#if REPRISE_SHARED_NODES

WeakNode::WeakNode(const NodePtr& node) : node_(node) {}

NodePtr WeakNode::lock() const {
  return node_.lock();
}

std::unique_ptr<torch::autograd::AnomalyMetadata> make_node_metadata() {
  return std::make_unique<torch::autograd::AnomalyMetadata>();
}

#else

/// Shared by a node and those who watch it.
class NodeLife {
 public:
  explicit NodeLife(torch::autograd::Node* node) : node_(node) {}

  void end() {
    const std::scoped_lock lock(mutex_);
    node_ = nullptr;
  }

  NodePtr lock() {
    if (auto weak = weak_node()) {
      return weak->lock();
    }
    return {};
  }

 private:
  /// The last owner may be about to destroy the node, which waits in end(): only its counts are
  /// touched here. What is returned is dropped without the mutex, as that may itself destroy the
  /// node.
  std::optional<c10::weak_intrusive_ptr<torch::autograd::Node>> weak_node() {
    const std::scoped_lock lock(mutex_);
    if (node_ == nullptr) {
      return std::nullopt;
    }
    auto not_counted = NodePtr::reclaim(node_);
    std::optional<c10::weak_intrusive_ptr<torch::autograd::Node>> weak(not_counted);
    not_counted.release();
    return weak;
  }

  std::mutex mutex_;
  torch::autograd::Node* node_;
};

namespace {

/// Dies with the node.
struct LifeEnd {
  explicit LifeEnd(torch::autograd::Node* node) : life(std::make_shared<NodeLife>(node)) {}
  ~LifeEnd() { life->end(); }
  LifeEnd(const LifeEnd&) = delete;
  LifeEnd& operator=(const LifeEnd&) = delete;

  const std::shared_ptr<NodeLife> life;
};

struct NodeMetadata final : torch::autograd::AnomalyMetadata {
  std::shared_ptr<void> attachment;
};

/// Null: another engine made the metadata.
std::shared_ptr<void>* attachment_of(torch::autograd::AnomalyMetadata& metadata) {
  if (const auto* host = host_language()) {
    return &host->attachment(metadata);
  }
  auto* own = dynamic_cast<NodeMetadata*>(&metadata);
  return own == nullptr ? nullptr : &own->attachment;
}

/// Regions on several threads may have the same input.
OwnedMutex& metadata_mutex() {
  static OwnedMutex mutex;
  return mutex;
}

}  // namespace

WeakNode::WeakNode(const NodePtr& node) {
  if (!node) {
    return;
  }
  const std::scoped_lock lock(metadata_mutex());
  auto* attachment = attachment_of(*node->metadata());
  TORCH_INTERNAL_ASSERT(attachment != nullptr, "another engine made a node's metadata");
  if (*attachment == nullptr) {
    *attachment = std::make_shared<LifeEnd>(node.get());
  }
  life_ = static_cast<const LifeEnd*>(attachment->get())->life;
}

NodePtr WeakNode::lock() const {
  return life_ ? life_->lock() : NodePtr();
}

std::unique_ptr<torch::autograd::AnomalyMetadata> make_node_metadata() {
  return std::make_unique<NodeMetadata>();
}

#endif

}  // namespace reprise::detail
