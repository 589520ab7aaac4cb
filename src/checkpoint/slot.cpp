#include "checkpoint/slot.h"

#include "checkpoint/private_field.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <string_view>
#include <typeinfo>

namespace reprise::detail {
namespace {

/// Gives access to a protected field of Node.
struct NodeFields : torch::autograd::Node {
  static bool has_parent(const Node& node) { return node.*(&NodeFields::has_parent_); }
};

/// Whether the node that made a tensor is a custom function that is saving it: see Note [Custom
/// functions save undisturbed]. The sequence number does not tell, because a custom function may
/// create newer nodes in its forward. But nothing has used its result yet.
bool is_saving_custom_function(const torch::autograd::Node& node) {
  // Every custom function is its own instance of this template, without a common base class.
  constexpr std::string_view kOfCpp = "N5torch8autograd7CppNodeI";
  constexpr const char* kOfPython = "N5torch8autograd6PyNodeE";
  const char* type = typeid(node).name();
  return (std::strncmp(type, kOfCpp.data(), kOfCpp.size()) == 0 ||
          std::strcmp(type, kOfPython) == 0) &&
         !NodeFields::has_parent(node);
}

}  // namespace

Slot::Slot(const at::Tensor& saved, size_t slot_index, DeterminismCheck check)
    : version_counter(saved.unsafeGetTensorImpl()->version_counter()),
      version(version_counter.current_version()),
      index(static_cast<uint32_t>(slot_index)),
      dtype(saved.scalar_type()),
      device(saved.device()),
      sequence_number(at::sequence_number::peek() - 1),
      tensor(saved.unsafeGetTensorImpl()) {
  const auto* meta = autograd_meta_of(saved);
  // Not grad_fn(), which would rebuild the history of views.
  auto* node = meta == nullptr ? nullptr : meta->grad_fn_.get();
  is_result = node != nullptr && node->sequence_nr() == sequence_number;
  is_custom_result = node != nullptr && is_saving_custom_function(*node);
  is_parameter = meta != nullptr && node == nullptr && meta->requires_grad_;
  if (check != DeterminismCheck::None) {
    const auto shape = comparable_sizes(saved);
    sizes.append(shape.begin(), shape.end());
  }
}

}  // namespace reprise::detail
