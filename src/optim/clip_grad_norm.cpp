// Clipping by the joint norm, operator by operator as torch.nn.utils.clip_grad_norm_: the norm of
// 16-bit gradients is rounded to their type there, and so it is here.
#include <reprise/optim/optimizer.h>

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {
namespace {

using Group = std::vector<at::Tensor>;

/// Gradients by device and dtype, which the operators over lists are fast for.
std::vector<Group> groups_of(const Optimizer::Parameters& parameters) {
  std::vector<Group> groups;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& grad = parameter.grad();
    if (!grad.defined()) {
      continue;
    }
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.front().device() == grad.device() &&
             group.front().scalar_type() == grad.scalar_type();
    });
    if (same == groups.end()) {
      groups.push_back({grad});
    } else {
      same->push_back(grad);
    }
  }
  return groups;
}

at::Tensor total_norm(const std::vector<Group>& groups) {
  std::vector<at::Tensor> norms;
  for (const Group& group : groups) {
    for (const at::Tensor& norm : at::_foreach_norm(group)) {
      norms.push_back(norm.to(groups.front().front().device()));
    }
  }
  return at::linalg_vector_norm(at::stack(norms), 2);
}

}  // namespace

at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters, double max_norm) {
  TORCH_CHECK(max_norm >= 0,
              "[clip_grad_norm] max_norm: expected at least 0 (0 measures only), got ",
              max_norm);
  const c10::NoGradGuard no_grad;
  const std::vector<Group> groups = groups_of(parameters);
  if (groups.empty()) {
    const at::Device device =
        parameters.empty() ? at::Device(at::kCPU) : parameters.front().second.device();
    return at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
  }
  const at::Tensor norm = total_norm(groups);
  if (max_norm > 0) {
    // Multiplying by 1 when nothing is to be clipped costs less than asking a GPU whether.
    const at::Tensor factor = at::clamp(norm.add(1e-6).reciprocal().mul(max_norm), {}, 1.0);
    for (const Group& group : groups) {
      at::_foreach_mul_(group, factor.to(group.front().device()));
    }
  }
  return norm.to(at::kFloat);
}

}  // namespace reprise
