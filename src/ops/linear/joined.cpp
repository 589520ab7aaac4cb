#include "ops/linear/joined.h"

#include "ops/node.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <numeric>

namespace reprise::ops {

namespace {

struct JoinRowsBackward : torch::autograd::Node {
  std::vector<int64_t> rows;

  variable_list apply(variable_list&& gradients) override {
    variable_list parts(rows.size());
    if (gradients[0].defined()) {
      parts = gradients[0].split_with_sizes(rows, 0);
    }
    return parts;
  }
  std::string name() const override { return "JoinRowsBackward"; }
};

}  // namespace

std::vector<at::Tensor> adjacent_rows(const std::vector<int64_t>& rows,
                                      int64_t columns,
                                      const at::TensorOptions& options) {
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  const int64_t width = columns == 0 ? 1 : columns;
  const auto storage = at::empty({all * width}, options).storage();
  std::vector<at::Tensor> parts;
  int64_t start = 0;
  for (const int64_t count : rows) {
    // Not views of one tensor: they become parameters, which are leaves.
    auto part = at::empty({0}, options);
    if (columns == 0) {
      part.set_(storage, start, {count}, {1});
    } else {
      part.set_(storage, start, {count, columns}, {columns, 1});
    }
    // They share one version counter, as views of one tensor would.
    if (!parts.empty() && !part.is_inference()) {
      torch::autograd::impl::set_version_counter(
          part, torch::autograd::impl::version_counter(parts.front()));
    }
    parts.push_back(std::move(part));
    start += count * width;
  }
  return parts;
}

bool are_adjacent(at::TensorList parts) {
  const at::Tensor& first = parts.front();
  int64_t end = first.storage_offset();
  for (const auto& part : parts) {
    if (!part.is_contiguous() || !part.is_alias_of(first) || part.storage_offset() != end ||
        part.scalar_type() != first.scalar_type() || part.dim() != first.dim() ||
        part.sizes().slice(1) != first.sizes().slice(1)) {
      return false;
    }
    end += part.numel();
  }
  return true;
}

at::Tensor join_rows(at::TensorList parts) {
  TORCH_INTERNAL_ASSERT(are_adjacent(parts));
  const auto node = node_over<JoinRowsBackward>(parts);
  std::vector<int64_t> rows;
  for (const auto& part : parts) {
    rows.push_back(part.size(0));
  }
  auto sizes = parts.front().sizes().vec();
  sizes[0] = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  at::Tensor whole;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    whole = at::alias(parts.front()).as_strided(sizes, parts.front().strides());
  }
  if (!whole.is_inference() && !parts.front().is_inference()) {
    torch::autograd::impl::set_version_counter(
        whole, torch::autograd::impl::version_counter(parts.front()));
  }
  if (node != nullptr) {
    node->rows = std::move(rows);
    torch::autograd::set_history(whole, node);
  }
  return whole;
}

}  // namespace reprise::ops
