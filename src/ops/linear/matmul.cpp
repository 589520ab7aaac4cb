#include "ops/linear/matmul.h"

#include "ops/cpu/onednn_matmul.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace {

at::Tensor maybe_transposed(const at::Tensor& matrix, bool is_transposed) {
  return is_transposed ? matrix.t() : matrix;
}

}  // namespace

namespace reference {

void product_(at::Tensor& out,
              const at::Tensor& a,
              const at::Tensor& b,
              bool transpose_a,
              bool transpose_b,
              bool adds) {
  const auto left = maybe_transposed(a, transpose_a), right = maybe_transposed(b, transpose_b);
  const bool is_one_type = out.scalar_type() == a.scalar_type();
  if (is_one_type && out.is_contiguous() && serves_onednn_matmul(left, right)) {
    onednn_matmul(out, left, right, adds);
  } else if (is_one_type && adds) {
    out.addmm_(left, right);
  } else if (is_one_type) {
    at::mm_out(out, left, right);
  } else if (adds) {
    at::addmm_out(out, out, left, right, out.scalar_type());
  } else {
    at::mm_out(out, left, right, out.scalar_type());
  }
}

}  // namespace reference

namespace {

void call_product(
    at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Transposed transposed, bool adds) {
  const auto rows = [](const at::Tensor& x, bool is_transposed) {
    return x.size(is_transposed ? 1 : 0);
  };
  const auto columns = [](const at::Tensor& x, bool is_transposed) {
    return x.size(is_transposed ? 0 : 1);
  };
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && out.dim() == 2 &&
                  columns(a, transposed.a) == rows(b, transposed.b) &&
                  out.size(0) == rows(a, transposed.a) && out.size(1) == columns(b, transposed.b) &&
                  a.device() == b.device() && a.device() == out.device(),
              "[product] ",
              a.sizes(),
              transposed.a ? " transposed" : "",
              " and ",
              b.sizes(),
              transposed.b ? " transposed" : "",
              " do not multiply to ",
              out.sizes(),
              " on one device.");
  static const auto op = find_operator<decltype(reference::product_)>("reprise::product_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(out, a, b, transposed.a, transposed.b, adds);
}

}  // namespace

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b, Transposed transposed) {
  auto out = at::empty({a.size(transposed.a ? 1 : 0), b.size(transposed.b ? 0 : 1)},
                       a.options().requires_grad(false));
  call_product(out, a, b, transposed, /*adds=*/false);
  return out;
}

void matmul_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Transposed transposed) {
  call_product(out, a, b, transposed, /*adds=*/false);
}

void add_matmul(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, Transposed transposed) {
  call_product(sum, a, b, transposed, /*adds=*/true);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "product_(Tensor(a!) out, Tensor a, Tensor b, bool transpose_a, bool transpose_b, bool adds) "
      "-> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("product_", reference::product_);
}

}  // namespace reprise::ops
