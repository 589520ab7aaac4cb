// Operators that compute element by element, and reductions.
#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"

namespace reprise::fuzz {

using namespace helpers;  // NOLINT: rows name them as a printed program does

// clang-format off
std::vector<Operator> math_operators() {
  return {
      REPRISE_FUZZ_ROW("add", "xx>x", kComplex | kCommon, "", "aten::add.Tensor", x(0) + x(1)),
      REPRISE_FUZZ_ROW("sub", "xx>x", kComplex, "", "aten::sub.Tensor", x(0) - x(1)),
      REPRISE_FUZZ_ROW("mul", "xx>x", kComplex | kCommon, "01", "aten::mul.Tensor", x(0) * x(1)),
      REPRISE_FUZZ_ROW("div", "xx>x", 0, "0", "", x(0) / (x(1).abs() + 1)),
      REPRISE_FUZZ_ROW("scale", "x>x", kComplex, "", "aten::mul.Scalar", x(0) * num),
      REPRISE_FUZZ_ROW("neg", "x>x", kComplex, "", "aten::neg", torch::neg(x(0))),
      REPRISE_FUZZ_ROW("tanh", "x>x", kComplex | kCommon, "o", "aten::tanh", torch::tanh(x(0))),
      REPRISE_FUZZ_ROW("sigmoid", "x>x", 0, "o", "aten::sigmoid", torch::sigmoid(x(0))),
      REPRISE_FUZZ_ROW("relu", "x>x", kCommon, "o", "aten::relu", torch::relu(x(0))),
      REPRISE_FUZZ_ROW("gelu", "x>x", kCommon, "0", "aten::gelu", torch::gelu(x(0))),
      REPRISE_FUZZ_ROW("silu", "x>x", 0, "0", "aten::silu", torch::silu(x(0))),
      REPRISE_FUZZ_ROW("leaky_relu", "x>x", 0, "0", "aten::leaky_relu", torch::leaky_relu(x(0), num)),
      REPRISE_FUZZ_ROW("softplus", "x>x", 0, "0", "aten::softplus", torch::softplus(x(0))),
      REPRISE_FUZZ_ROW("exp", "x>x", 0, "", "aten::exp", torch::exp(-x(0).abs())),
      REPRISE_FUZZ_ROW("sin", "x>x", kComplex, "0", "aten::sin", torch::sin(x(0))),
      REPRISE_FUZZ_ROW("square", "x>x", kRare, "0", "", torch::tanh(x(0)).square()),
      REPRISE_FUZZ_ROW("sqrt", "x>x", 0, "", "aten::sqrt", torch::sqrt(x(0).abs() + 1)),
      REPRISE_FUZZ_ROW("clamp", "x>x", 0, "0", "aten::clamp", torch::clamp(x(0), -num, num)),
      REPRISE_FUZZ_ROW("addcmul", "xxx>x", kComplex, "12", "aten::addcmul", torch::addcmul(x(0), x(1), x(2), num)),
      REPRISE_FUZZ_ROW("lerp", "xx>x", 0, "", "aten::lerp.Scalar", torch::lerp(x(0), x(1), num)),
      REPRISE_FUZZ_ROW("maximum", "xx>x", kRare, "01", "aten::maximum", torch::maximum(x(0), x(1))),
      REPRISE_FUZZ_ROW("cumsum", "a>a", kRare, "", "aten::cumsum", torch::cumsum(x(0), 0)),
      REPRISE_FUZZ_ROW("flip", "a>a", kComplex | kRare, "", "aten::flip", torch::flip(x(0), {0})),
      REPRISE_FUZZ_ROW("roll", "a>a", kRare, "", "aten::roll", torch::roll(x(0), 1, 1)),
      REPRISE_FUZZ_ROW("tril", "w>w", kRare, "", "aten::tril", torch::tril(x(0))),
      REPRISE_FUZZ_ROW("clone", "x>x", kComplex, "", "aten::clone", x(0).clone()),
      REPRISE_FUZZ_ROW("cube", "x>x", 0, "0o", "", Cube::apply(torch::tanh(x(0)))),
      REPRISE_FUZZ_ROW("through_double", "x>x", kRare, "", "aten::_to_copy", x(0).to(torch::kDouble).sin().to(x(0).scalar_type())),
      REPRISE_FUZZ_ROW("through_half", "x>x", kRare, "", "aten::_to_copy", x(0).to(torch::kHalf).to(x(0).scalar_type())),
      REPRISE_FUZZ_ROW("greater", "aa>m", kDetached, "", "", x(0).gt(x(1))),
      REPRISE_FUZZ_ROW("positive", "a>m", kDetached, "", "", x(0).gt(0)),
      REPRISE_FUZZ_ROW("where", "maa>a", 0, "0", "aten::where.self", torch::where(x(0), x(1), x(2))),
      REPRISE_FUZZ_ROW("masked_fill", "am>a", kComplex, "1", "aten::masked_fill.Scalar", x(0).masked_fill(x(1), num)),
      REPRISE_FUZZ_ROW("cat", "hh>a", kComplex, "", "aten::cat", torch::cat({x(0), x(1)}, 1)),
      REPRISE_FUZZ_ROW("sum_rows", "a>v", kComplex, "", "aten::sum.dim_IntList", x(0).sum(0)),
      REPRISE_FUZZ_ROW("mean_rows", "a>v", kComplex, "", "aten::mean.dim", x(0).mean(0)),
      REPRISE_FUZZ_ROW("max_rows", "a>v", kRare, "", "aten::max.dim", std::get<0>(x(0).max(0))),
      REPRISE_FUZZ_ROW("logsumexp", "a>v", 0, "0o", "", torch::logsumexp(x(0), 0)),
      REPRISE_FUZZ_ROW("sum", "x>s", kComplex, "", "aten::sum", x(0).sum()),
      REPRISE_FUZZ_ROW("mean", "x>s", kComplex, "", "aten::mean", x(0).mean()),
      REPRISE_FUZZ_ROW("norm", "a>s", kRare, "0o", "", torch::norm(x(0))),
      REPRISE_FUZZ_ROW("mse", "aa>s", 0, "01", "aten::mse_loss", torch::mse_loss(x(0), x(1))),
      REPRISE_FUZZ_ROW("add_scalar", "as>a", kComplex, "", "aten::add.Tensor", x(0) + x(1)),
      REPRISE_FUZZ_ROW("mul_scalar", "as>a", kComplex, "01", "aten::mul.Tensor", x(0) * x(1)),
      REPRISE_FUZZ_ROW("mul_vector", "av>a", kComplex, "01", "aten::mul.Tensor", x(0) * x(1)),
      REPRISE_FUZZ_ROW("loss", "x>s", kComplex | kNoWeight, "", "", (x(0) * num).sum()),
      REPRISE_FUZZ_ROW("complex_loss", "x>s", kComplex | kNoWeight, "", "", torch::view_as_real(x(0) * num).sum()),
      REPRISE_FUZZ_ROW("square_loss", "x>s", kComplex | kNoWeight, "0", "", (x(0) * x(0)).sum()),
  };
}
// clang-format on

}  // namespace reprise::fuzz
