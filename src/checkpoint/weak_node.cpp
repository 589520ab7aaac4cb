#include "checkpoint/weak_node.h"

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

class NodeMetadata final : public torch::autograd::AnomalyMetadata {
 public:
  ~NodeMetadata() override {
    if (life_) {
      life_->end();
    }
  }

  std::shared_ptr<NodeLife> life_of(torch::autograd::Node* node) {
    if (!life_) {
      life_ = std::make_shared<NodeLife>(node);
    }
    return life_;
  }

 private:
  std::shared_ptr<NodeLife> life_;
};

/// Regions on several threads may have the same input.
std::mutex& metadata_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

WeakNode::WeakNode(const NodePtr& node) {
  if (!node) {
    return;
  }
  const std::scoped_lock lock(metadata_mutex());
  auto* metadata = dynamic_cast<NodeMetadata*>(node->metadata());
  TORCH_INTERNAL_ASSERT(metadata != nullptr, "another engine made a node's metadata");
  life_ = metadata->life_of(node.get());
}

NodePtr WeakNode::lock() const {
  return life_ ? life_->lock() : NodePtr();
}

std::unique_ptr<torch::autograd::AnomalyMetadata> make_node_metadata() {
  return std::make_unique<NodeMetadata>();
}

#endif

}  // namespace reprise::detail
