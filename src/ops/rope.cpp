#include "ops/rope.h"

#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"
#include "ops/rotate.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace reference {

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                int64_t rotary_dims,
                bool interleaved,
                bool back) {
  return rotate(x, cos, back ? sin.neg() : sin, rotary_dims, interleaved);
}

}  // namespace reference

namespace {

struct RopeBackward : torch::autograd::Node {
  SavedVariable cos, sin;
  Rotation rotation;

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) {
      return variable_list(1);
    }
    return {rope(gradients[0], cos.unpack(), sin.unpack(), rotation)};
  }
  void release_variables() override {
    cos.reset_data();
    sin.reset_data();
  }
  std::string name() const override { return "reprise::RopeBackward"; }
};

}  // namespace

at::Tensor rope(const at::Tensor& x,
                const at::Tensor& cos,
                const at::Tensor& sin,
                const Rotation& rotation) {
  const auto fits = [&](const at::Tensor& table) {
    return table.scalar_type() == at::kFloat && table.dim() == 4 && table.size(1) == 1 &&
           (table.size(0) == 1 || table.size(0) == x.size(0)) && table.size(2) == x.size(2) &&
           table.size(3) == rotation.dims / 2 && table.device() == x.device();
  };
  TORCH_CHECK(x.dim() == 4 && rotation.dims <= x.size(3) && fits(cos) && fits(sin) &&
                  cos.sizes() == sin.sizes(),
              "[rope] expected x (B, heads, T, head_dim) and float32 tables (B or 1, 1, T, ",
              rotation.dims / 2,
              ") on one device, got ",
              x.sizes(),
              ", ",
              cos.sizes(),
              " and ",
              sin.sizes());
  static const auto op = find_operator<decltype(reference::rope)>("reprise::rope");
  const auto node = node_over<RopeBackward>(x);
  if (node != nullptr) {
    node->cos = saved_input(cos);
    node->sin = saved_input(sin);
    node->rotation = rotation;
    node->rotation.is_inverse = !rotation.is_inverse;
  }
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = op.call(x, cos, sin, rotation.dims, rotation.interleaved, rotation.is_inverse);
  }
  if (node != nullptr) {
    torch::autograd::set_history(result, node);
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "rope(Tensor x, Tensor cos, Tensor sin, int rotary_dims, bool interleaved, bool back) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("rope", reference::rope);
}

}  // namespace reprise::ops
