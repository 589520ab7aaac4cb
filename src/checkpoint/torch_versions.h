// What differs between the versions of LibTorch that Reprise is built with
// (cmake/TorchVersions.cmake). Only here does the code ask for a version. Where more than a name
// differs (weak_node.h, ops/cuda/step_graph.cpp, tests), it asks for one of these facts.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <string_view>
#include <utility>

static_assert(TORCH_VERSION_MAJOR == 2, "Reprise is built with LibTorch 2");

/// Up to 2.12 nodes of the graph are owned by std::shared_ptr, since 2.13 by c10::intrusive_ptr.
#define REPRISE_SHARED_NODES (TORCH_VERSION_MINOR < 13)
/// Up to 2.12 dimensions may have names.
#define REPRISE_NAMED_TENSORS (TORCH_VERSION_MINOR < 13)
/// Up to 2.12 the kinds of thread-local debug information are an enumeration, which has none for
/// others than LibTorch.
#define REPRISE_LISTED_DEBUG_KINDS (TORCH_VERSION_MINOR < 13)
/// A graph whose capture failed leaves its generators in 2.11 and the allocators up to 2.13 as if
/// it still captured.
#define REPRISE_CAPTURE_HOLDS_GENERATORS (TORCH_VERSION_MINOR < 12)
#define REPRISE_CAPTURE_HOLDS_ALLOCATORS (TORCH_VERSION_MINOR < 14)

/// Since 2.14 a thread may make fake tensors in C++: Note [Fake tensors].
#define REPRISE_FAKE_TENSORS (TORCH_VERSION_MINOR >= 14)

/// Since 2.15 a program may be told of every new node of the graph.
#define REPRISE_NODE_CREATION_HOOKS (TORCH_VERSION_MINOR >= 15)

#if REPRISE_NAMED_TENSORS
#include <ATen/NamedTensorUtils.h>
#endif
#if REPRISE_FAKE_TENSORS
#include <c10/core/impl/FakeTensorModeTLS.h>
#endif

namespace reprise::detail {

using NodePtr = decltype(torch::autograd::Edge::function);

/// A new node. Long graphs die without recursion.
template <class Node, class... Args>
auto make_node(Args&&... args) {
#if REPRISE_SHARED_NODES
  return std::shared_ptr<Node>(std::make_unique<Node>(std::forward<Args>(args)...).release(),
                               torch::autograd::deleteNode);
#else
  return c10::make_intrusive<Node>(std::forward<Args>(args)...);
#endif
}

/// A pointer to a node, as SavedVariable::unpack takes it for an output of the node.
inline NodePtr pointer_to(torch::autograd::Node& node) {
#if REPRISE_SHARED_NODES
  return node.getptr();
#else
  return NodePtr::reclaim_copy(&node);
#endif
}

/// In its scope, names of dimensions are ignored.
#if REPRISE_NAMED_TENSORS
using IgnoredNames = at::NoNamesGuard;
#else
struct IgnoredNames {
  IgnoredNames() {}  // not trivial, so that an unused guard is no warning
};
#endif

/// Whether this thread makes fake tensors.
inline bool is_fake_mode_on() {
#if REPRISE_FAKE_TENSORS
  return c10::impl::FakeTensorModeTLS::get_state() != nullptr;
#else
  return false;
#endif
}

/// Whether a kernel that was looked up only passes calls on. Older versions do not tell; there one
/// fails by LibTorch's own assertion.
template <class Kernel>
bool is_fallthrough(const Kernel& kernel) {
  if constexpr (requires { kernel.kernelFunction(); }) {
    return kernel.kernelFunction().isFallthrough();
  } else {
    return false;
  }
}

#if REPRISE_LISTED_DEBUG_KINDS
inline constexpr auto kNodeListenerKind =
    c10::DebugInfoKind::TEST_INFO_2;  // LibTorch reads it nowhere
#else
inline constexpr std::string_view kNodeListenerName = "reprise node listener";
inline constexpr c10::DebugInfoKind kNodeListenerKind(&kNodeListenerName);
#endif

}  // namespace reprise::detail
