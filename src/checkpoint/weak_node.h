// A reference to a node of autograd's graph that does not own it.
#pragma once

#include "checkpoint/torch_versions.h"

#include <reprise/export.h>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <memory>

namespace reprise::detail {

/// Note [Watching a node]
/// Where a node is owned by a std::shared_ptr, a std::weak_ptr is all it takes. A
/// c10::weak_intrusive_ptr keeps the object itself: what a node has saved, with the hooks that own
/// a region's frame, would stay in memory, and regions that detach their inputs would keep each
/// other. So the node gets a part that dies with it and tells: the metadata that every node may
/// have, which our engine makes.
class REPRISE_API WeakNode {
 public:
  WeakNode() = default;
  explicit WeakNode(const NodePtr& node);  ///< may be null

  /// Null if the node is gone.
  NodePtr lock() const;

 private:
#if REPRISE_SHARED_NODES
  std::weak_ptr<torch::autograd::Node> node_;
#else
  std::shared_ptr<class NodeLife> life_;
#endif
};

/// What Engine::make_anomaly_metadata() returns.
std::unique_ptr<torch::autograd::AnomalyMetadata> make_node_metadata();

}  // namespace reprise::detail
