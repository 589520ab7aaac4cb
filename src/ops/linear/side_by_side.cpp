#include "ops/linear/side_by_side.h"

#include "ops/add_rounded.h"
#include "ops/linear/linear_gradients.h"
#include "ops/linear/matmul.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <algorithm>

namespace reprise::ops {

namespace {

// Size of a piece of the adapters' output: small beside the sum and within a CPU's cache, but large
// enough to keep a GPU busy.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
constexpr int64_t kGpuPieceBytes = int64_t{128} << 20;

struct Factors {
  std::vector<at::Tensor> x, weights;  // (rows, in) and (out, in), of one type
  at::IntArrayRef starts;

  // Whether the parts cover all columns.
  bool fill(int64_t width) const {
    int64_t covered = 0;
    for (const auto& weight : weights) {
      covered += weight.size(0);
    }
    return covered == width;
  }

  // Computes rows from `first` on. Columns of no part are left as they are.
  void multiply_into(const at::Tensor& rows, int64_t first) const {
    for (size_t i = 0; i < x.size(); ++i) {
      auto columns = rows.narrow(1, starts[i], weights[i].size(0));
      matmul_into(columns, x[i].narrow(0, first, rows.size(0)), weights[i], {.b = true});
    }
  }
};

Factors factors_of(at::TensorList x, at::TensorList weights, at::IntArrayRef starts) {
  Factors factors{.x = {}, .weights = {}, .starts = starts};
  for (size_t i = 0; i < x.size(); ++i) {
    factors.x.push_back(x[i].reshape({-1, x[i].size(-1)}));
    factors.weights.push_back(weights[i].to(x[i].scalar_type()));
  }
  return factors;
}

at::Tensor output_buffer(const Factors& factors, at::IntArrayRef sizes) {
  const auto options = factors.x.front().options().requires_grad(false);
  return factors.fill(sizes.back()) ? at::empty(sizes, options) : at::zeros(sizes, options);
}

}  // namespace

namespace reference {

at::Tensor side_by_side(const std::optional<at::Tensor>& onto,
                        at::TensorList x,
                        at::TensorList weights,
                        at::IntArrayRef starts,
                        int64_t width) {
  const auto factors = factors_of(x, weights, starts);
  auto sizes = x.front().sizes().vec();
  sizes.back() = width;
  if (!onto) {
    auto all = output_buffer(factors, sizes);
    factors.multiply_into(all.view({-1, width}), 0);
    return all;
  }
  const auto addends = onto->reshape({-1, width});
  const int64_t rows = addends.size(0);
  const int64_t row_bytes = width * static_cast<int64_t>(x.front().itemsize());
  const int64_t most_rows =
      (memory::is_for_cuda(onto->device()) ? kGpuPieceBytes : kPieceBytes) / row_bytes;
  const int64_t step = std::clamp<int64_t>(most_rows, 1, std::max<int64_t>(rows, 1));
  const auto piece = output_buffer(factors, {step, width});
  at::Tensor sum;
  for (int64_t first = 0; first == 0 || first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const auto added = piece.narrow(0, 0, count);
    factors.multiply_into(added, first);
    // Allocated right before its first write, so that a checkpointed region that logs writes knows
    // that there is no old content to restore.
    sum = sum.defined() ? sum : at::empty(sizes, onto->options().requires_grad(false));
    auto out = sum.view({-1, width}).narrow(0, first, count);
    add_rounded_into(out, addends.narrow(0, first, count), added);
  }
  return sum;
}

}  // namespace reference

namespace {

struct SideBySideBackward : torch::autograd::Node {
  std::vector<SavedVariable> x, weights;
  std::vector<int64_t> starts;
  at::ScalarType type = at::kFloat;  // type of every x

  // Gradients of `onto`, of every x, then of every weight.
  variable_list apply(variable_list&& gradients) override {
    const size_t count = starts.size();
    variable_list results(1 + 2 * count);
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return results;
    }
    results[0] = gradient;
    for (size_t i = 0; i < count; ++i) {
      const LinearNeeds needs{.x = task_should_compute_output(1 + i),
                              .weight = task_should_compute_output(1 + count + i)};
      const auto weight = weights[i].unpack();
      const auto part = linear_gradients(gradient.narrow(-1, starts[i], weight.size(0)).to(type),
                                         needs.weight ? x[i].unpack() : at::Tensor(),
                                         weight,
                                         needs);
      results[1 + i] = part.x;
      results[1 + count + i] = part.weight;
    }
    return results;
  }
  void release_variables() override {
    for (size_t i = 0; i < starts.size(); ++i) {
      x[i].reset_data();
      weights[i].reset_data();
    }
  }
  std::string name() const override { return "reprise::SideBySideBackward"; }
};

void check_parts(const std::vector<ColumnProduct>& parts, int64_t width, const at::Tensor& onto) {
  TORCH_CHECK(!parts.empty(), "[side_by_side] expected at least one part.");
  auto sizes = parts.front().x.sizes().vec();
  int64_t end = 0;
  for (const auto& part : parts) {
    check_linear("side_by_side", part.x, part.weight, {}, {});
    sizes.back() = part.x.size(-1);
    TORCH_CHECK(part.x.sizes() == sizes && part.x.scalar_type() == parts.front().x.scalar_type() &&
                    part.start >= end && part.start + part.weight.size(0) <= width,
                "[side_by_side] expected parts of one type and shape, one behind the other in ",
                width,
                " columns, got ",
                part.x.scalar_type(),
                part.x.sizes(),
                " with ",
                part.weight.size(0),
                " columns at ",
                part.start);
    end = part.start + part.weight.size(0);
  }
  sizes.back() = width;
  TORCH_CHECK(!onto.defined() || onto.sizes() == sizes,
              "[side_by_side] expected a product of ",
              sizes,
              ", got ",
              onto.sizes());
}

at::Tensor call_side_by_side(const at::Tensor& onto,
                             const std::vector<ColumnProduct>& parts,
                             int64_t width) {
  check_parts(parts, width, onto);
  static const auto op = find_operator<decltype(reference::side_by_side)>("reprise::side_by_side");
  std::vector<at::Tensor> x, weights;
  std::vector<int64_t> starts;
  for (const auto& part : parts) {
    x.push_back(part.x);
    weights.push_back(part.weight);
    starts.push_back(part.start);
  }
  const auto node = node_over<SideBySideBackward>(onto, at::TensorList(x), at::TensorList(weights));
  if (node != nullptr) {
    for (const auto& part : parts) {
      node->x.push_back(part.weight.requires_grad() ? saved_input(part.x) : SavedVariable());
      node->weights.push_back(saved_input(part.weight));
    }
    node->starts = starts;
    node->type = x.front().scalar_type();
  }
  at::Tensor all;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    all = op.call(as_optional(onto), x, weights, starts, width);
  }
  if (node != nullptr) {
    torch::autograd::set_history(all, node);
  }
  return all;
}

}  // namespace

at::Tensor side_by_side(const std::vector<ColumnProduct>& parts, int64_t width) {
  return call_side_by_side({}, parts, width);
}

at::Tensor add_side_by_side(const at::Tensor& product, const std::vector<ColumnProduct>& parts) {
  return call_side_by_side(product, parts, product.size(-1));
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "side_by_side(Tensor? onto, Tensor[] x, Tensor[] weights, int[] starts, int width) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("side_by_side", reference::side_by_side);
}

}  // namespace reprise::ops
