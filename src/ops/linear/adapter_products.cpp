#include "ops/linear/adapter_products.h"

#include "ops/drop.h"
#include "ops/kernel_allocations.h"
#include "ops/linear/matmul.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace reprise::ops {

namespace {

// Size of a piece of rows that is copied: small beside the rows and within a CPU's cache, but large
// enough to keep a GPU busy.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
constexpr int64_t kGpuPieceBytes = int64_t{128} << 20;

at::ScalarType product_type(const at::Tensor& x, const Adapters& adapters) {
  const auto& a = adapters.a.front();
  if (memory::is_for_cuda(x.device()) && are_kernel_types(x, a)) {
    return x.scalar_type();
  }
  return c10::promoteTypes(c10::promoteTypes(x.scalar_type(), a.scalar_type()), at::kFloat);
}

// Dropout divides what it keeps by its probability; here the small matrix is divided.
double factor_of(const Adapters& adapters, size_t index) {
  return adapters.scales[index] / (adapters.seed.defined() ? 1 - adapters.dropout : 1);
}

int64_t all_ranks(const Adapters& adapters) {
  int64_t ranks = 0;
  for (const auto& a : adapters.a) {
    ranks += a.size(0);
  }
  return ranks;
}

// Calls `visit(index, first rank)` for every adapter.
template <class Visit>
void for_each_adapter(const Adapters& adapters, const Visit& visit) {
  int64_t first = 0;
  for (size_t i = 0; i < adapters.a.size(); ++i) {
    visit(i, first);
    first += adapters.a[i].size(0);
  }
}

// All a times their factors: converted, scaled and stacked by one pass each.
at::Tensor stacked_a(const Adapters& adapters, at::ScalarType type) {
  const auto& one = adapters.a.front();
  auto all =
      at::empty({all_ranks(adapters), one.size(1)}, one.options().dtype(type).requires_grad(false));
  for_each_adapter(adapters, [&](size_t i, int64_t first) {
    const auto& a = adapters.a[i];
    auto rows = all.narrow(0, first, a.size(0));
    at::mul_out(rows,
                a.to(c10::promoteTypes(a.scalar_type(), type)),
                at::scalar_tensor(factor_of(adapters, i), at::kDouble));
  });
  return all;
}

at::Tensor as_rows(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

// Calls `visit(first, count)` for pieces of rows; one piece of all of them if nothing is copied.
template <class Visit>
void for_each_piece(const at::Tensor& rows, at::ScalarType type, bool copies, const Visit& visit) {
  const int64_t all = rows.size(0);
  const int64_t row_bytes =
      std::max<int64_t>(1, rows.size(1)) * static_cast<int64_t>(c10::elementSize(type));
  const int64_t most =
      (memory::is_for_cuda(rows.device()) ? kGpuPieceBytes : kPieceBytes) / row_bytes;
  const int64_t step = copies ? std::clamp<int64_t>(most, 1, std::max<int64_t>(all, 1)) : all;
  for (int64_t first = 0; first < all; first += step) {
    visit(first, std::min(step, all - first));
  }
}

// Rows of x as the adapters read them: in their type, dropped.
class Input {
 public:
  Input(const at::Tensor& x, at::ScalarType type, const Adapters& adapters)
      : rows_(as_rows(x)), type_(type), adapters_(adapters) {
    if (adapters.seed.defined()) {
      rows_ = rows_.contiguous();
    }
  }

  template <class Visit>
  void for_each_piece(const Visit& visit) const {
    const bool drops = adapters_.seed.defined();
    ops::for_each_piece(
        rows_, type_, drops || rows_.scalar_type() != type_, [&](int64_t first, int64_t count) {
          const auto part = rows_.narrow(0, first, count);
          if (!drops) {
            visit(first, part.to(type_));
            return;
          }
          auto left = at::empty(part.sizes(), part.options().dtype(type_).requires_grad(false));
          const int64_t number = first * rows_.size(1);
          drop_into(left, part, adapters_.seed, adapters_.dropout, number, /*adds=*/false);
          visit(first, left);
        });
  }

 private:
  at::Tensor rows_;
  at::ScalarType type_;
  const Adapters& adapters_;
};

// columns += low b^T, rounded once.
void add_columns(at::Tensor columns, const at::Tensor& low, const at::Tensor& b) {
  if (columns.scalar_type() == low.scalar_type()) {
    add_matmul(columns, low, b, {.b = true});
  } else {
    columns.add_(ops::matmul(low, b, {.b = true}));
  }
}

std::vector<at::Tensor> converted(const std::vector<at::Tensor>& tensors, at::ScalarType type) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    result.push_back(tensor.to(type));
  }
  return result;
}

}  // namespace

void add_adapters(at::Tensor& product, const at::Tensor& x, const Adapters& adapters) {
  const auto type = product_type(x, adapters);
  const auto stacked = stacked_a(adapters, type);
  const auto b = converted(adapters.b, type);
  const auto sums = product.view({-1, product.size(-1)});
  Input(x, type, adapters).for_each_piece([&](int64_t first, const at::Tensor& part) {
    const auto low = ops::matmul(part, stacked, {.b = true});
    const auto rows = sums.narrow(0, first, part.size(0));
    for_each_adapter(adapters, [&](size_t i, int64_t rank) {
      add_columns(rows.narrow(1, adapters.starts[i], b[i].size(0)),
                  low.narrow(1, rank, b[i].size(1)),
                  b[i]);
    });
  });
}

AdapterBackward::AdapterBackward(Adapters adapters, const at::Tensor& gradient)
    : adapters_(std::move(adapters)),
      gradient_(as_rows(gradient)),
      type_(product_type(gradient, adapters_)),  // a product has the type of its x
      stacked_(stacked_a(adapters_, type_)),
      low_(at::empty({gradient_.size(0), stacked_.size(0)}, stacked_.options())) {
  const auto b = converted(adapters_.b, type_);
  const bool copies = gradient_.scalar_type() != type_;
  for_each_piece(gradient_, type_, copies, [&](int64_t first, int64_t count) {
    for_each_adapter(adapters_, [&](size_t i, int64_t rank) {
      auto low = low_.narrow(0, first, count).narrow(1, rank, b[i].size(1));
      const auto part =
          gradient_.narrow(0, first, count).narrow(1, adapters_.starts[i], b[i].size(0));
      matmul_into(low, part.to(type_), b[i]);
    });
  });
}

void AdapterBackward::add_to(at::Tensor& for_x) const {
  auto sums = for_x.view({-1, for_x.size(-1)});
  const bool drops = adapters_.seed.defined();
  if (!drops && sums.scalar_type() == type_) {
    add_matmul(sums, low_, stacked_);
    return;
  }
  for_each_piece(sums, type_, /*copies=*/true, [&](int64_t first, int64_t count) {
    auto part = sums.narrow(0, first, count);
    const auto added = ops::matmul(low_.narrow(0, first, count), stacked_);
    if (drops) {
      const int64_t number = first * sums.size(1);
      drop_into(part, added, adapters_.seed, adapters_.dropout, number, /*adds=*/true);
    } else {
      part.add_(added);
    }
  });
}

AdapterGradients AdapterBackward::factors(const at::Tensor& x, const AdapterNeeds& needs) const {
  AdapterGradients gradients;
  const size_t count = adapters_.a.size();
  gradients.a.resize(count);
  gradients.b.resize(count);
  if (!needs.a && !needs.b) {
    return gradients;
  }
  const auto wide = c10::promoteTypes(type_, at::kFloat);
  const auto sum_of = [&](at::IntArrayRef sizes) {
    const auto options = stacked_.options().dtype(wide);
    return gradient_.size(0) == 0 ? at::zeros(sizes, options) : at::empty(sizes, options);
  };
  const auto add =
      [](bool is_first, at::Tensor sum, const at::Tensor& left, const at::Tensor& right) {
        if (is_first) {
          matmul_into(sum, left, right, {.a = true});
        } else {
          add_matmul(sum, left, right, {.a = true});
        }
      };
  const auto of_stacked = needs.a ? sum_of(stacked_.sizes()) : at::Tensor();
  for (size_t i = 0; needs.b && i < count; ++i) {
    gradients.b[i] = sum_of(adapters_.b[i].sizes());
  }
  Input(x, type_, adapters_).for_each_piece([&](int64_t first, const at::Tensor& part) {
    const int64_t rows = part.size(0);
    if (needs.a) {
      add(first == 0, of_stacked, low_.narrow(0, first, rows), part);
    }
    if (!needs.b) {
      return;
    }
    const auto low = ops::matmul(part, stacked_, {.b = true});
    const auto of_product = gradient_.narrow(0, first, rows);
    for_each_adapter(adapters_, [&](size_t i, int64_t rank) {
      const auto& b = gradients.b[i];
      add(first == 0,
          b,
          of_product.narrow(1, adapters_.starts[i], b.size(0)).to(type_),
          low.narrow(1, rank, b.size(1)));
    });
  });
  for_each_adapter(adapters_, [&](size_t i, int64_t rank) {
    const auto type = adapters_.a[i].scalar_type();
    if (needs.a) {
      gradients.a[i] =
          of_stacked.narrow(0, rank, adapters_.a[i].size(0)).mul_(factor_of(adapters_, i)).to(type);
    }
    if (needs.b) {
      gradients.b[i] = gradients.b[i].to(type);
    }
  });
  return gradients;
}

}  // namespace reprise::ops
