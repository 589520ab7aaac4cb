// Clips by the total norm with the same operators as torch.nn.utils.clip_grad_norm_, which rounds
// the norm of 16-bit gradients to their dtype.
#include "optim/gradient_norm.h"

#include <reprise/optim/optimizer.h>

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

using Group = std::vector<at::Tensor>;

/// Gradients grouped by device and dtype, for which the foreach operators are fast.
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
  return norm_of_norms(norms);
}

double sum_of_squares(const at::Tensor& norms) {
  return norms.to(at::kDouble).square().sum().item<double>();
}

/// A CPU adds elements one by one: in float32, a sum of millions loses digits, and float64 is
/// several times slower. So the norms of rows are computed in float32 and added in float64.
double sum_of_squares_by_rows(const at::Tensor& gradient) {
  constexpr int64_t kRow = 4096;
  const auto flat = gradient.reshape({-1});
  const int64_t whole = flat.numel() / kRow * kRow;
  const auto rows = flat.narrow(0, 0, whole).view({-1, kRow});
  const auto rest = flat.narrow(0, whole, flat.numel() - whole);
  return sum_of_squares(at::linalg_vector_norm(rows, 2, at::IntArrayRef{1})) +
         sum_of_squares(at::linalg_vector_norm(rest, 2));
}

/// In float64, so that it hardly matters how the gradients are divided into parts.
double sum_of_squares(const std::vector<Group>& groups) {
  double sum = 0;
  for (const Group& group : groups) {
    if (group.front().is_cpu()) {
      for (const at::Tensor& gradient : group) {
        sum += sum_of_squares_by_rows(gradient);
      }
      continue;
    }
    const bool is_double = group.front().scalar_type() == at::kDouble;
    const auto norms = at::_foreach_norm(group, 2, is_double ? at::kDouble : at::kFloat);
    sum += sum_of_squares(at::stack(norms));
  }
  return sum;
}

at::Tensor norm_of(double value, const Optimizer::Parameters& parameters) {
  const at::Device device =
      parameters.empty() ? at::Device(at::kCPU) : parameters.front().second.device();
  const bool is_double =
      !parameters.empty() && parameters.front().second.scalar_type() == at::kDouble;
  return at::full(
      {}, value, at::TensorOptions().dtype(is_double ? at::kDouble : at::kFloat).device(device));
}

void clip(const std::vector<Group>& groups, const at::Tensor& norm, double max_norm) {
  if (max_norm == 0) {
    return;
  }
  // Multiplying by 1 if nothing is clipped costs less than a GPU synchronization.
  const at::Tensor factor = clip_factor(norm, max_norm);
  for (const Group& group : groups) {
    at::_foreach_mul_(group, factor.to(group.front().device()));
  }
}

}  // namespace

void check_max_norm(double max_norm) {
  TORCH_CHECK(max_norm >= 0,
              "[clip_grad_norm] max_norm: expected at least 0 (0 measures only), got ",
              max_norm);
}

at::Tensor norm_of_norms(const std::vector<at::Tensor>& norms) {
  return at::linalg_vector_norm(at::stack(norms), 2);
}

at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  return at::clamp(norm.add(1e-6).reciprocal().mul(max_norm), {}, 1.0);
}

at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters, double max_norm) {
  check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  const std::vector<Group> groups = groups_of(parameters);
  if (groups.empty()) {
    return norm_of(0, parameters).to(at::kFloat);
  }
  const at::Tensor norm = total_norm(groups);
  clip(groups, norm, max_norm);
  return norm.to(at::kFloat);
}

// Summed on the host, because a process without any part has no device to sum on.
at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters,
                          double max_norm,
                          const World& world) {
  check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  const std::vector<Group> groups = groups_of(parameters);
  const double squares = world.sum(sum_of_squares(groups), "the norm of the gradients");
  const at::Tensor norm = norm_of(std::sqrt(squares), parameters);
  clip(groups, norm, max_norm);
  return norm.to(at::kFloat);
}

}  // namespace reprise
