// Matrix products and layers.
#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"

namespace reprise::fuzz {

using namespace helpers;  // NOLINT: rows name them as a printed program does

// clang-format off
std::vector<Operator> layer_operators() {
  return {
      REPRISE_FUZZ_ROW("mm", "aw>a", kComplex | kMatmul | kCommon, "01", "aten::mm", torch::mm(x(0), x(1))),
      REPRISE_FUZZ_ROW("mm_square", "ww>w", kComplex | kMatmul, "01", "aten::mm", torch::mm(x(0), x(1))),
      REPRISE_FUZZ_ROW("mm_t", "tw>a", kComplex | kMatmul, "01", "aten::mm", torch::mm(x(0).t(), x(1))),
      REPRISE_FUZZ_ROW("gram", "aa>w", kComplex | kMatmul, "01", "aten::mm", torch::mm(x(0).t(), x(1))),
      REPRISE_FUZZ_ROW("addmm", "vaw>a", kComplex | kMatmul, "12", "aten::addmm", torch::addmm(x(0), x(1), x(2))),
      REPRISE_FUZZ_ROW("linear", "awv>a", kMatmul | kCommon, "01", "aten::addmm", torch::linear(x(0), x(1), x(2))),
      REPRISE_FUZZ_ROW("linear_3d", "bww>b", kMatmul, "01", "", torch::linear(x(0), x(1).narrow(1, 0, H).narrow(0, 0, H))),
      REPRISE_FUZZ_ROW("mv", "wv>v", kComplex, "01", "aten::mv", torch::mv(x(0), x(1))),
      REPRISE_FUZZ_ROW("dot", "vv>s", kComplex, "01", "aten::dot", torch::dot(x(0), x(1))),
      REPRISE_FUZZ_ROW("outer", "vv>w", kComplex, "01", "aten::mul.Tensor", torch::outer(x(0), x(1))),
      REPRISE_FUZZ_ROW("einsum", "aw>a", kComplex | kMatmul | kRare, "01", "aten::bmm", torch::einsum("rd,de->re", {x(0), x(1)})),
      REPRISE_FUZZ_ROW("bmm", "bb>b", kMatmul, "01", "aten::bmm", torch::bmm(torch::softmax(torch::bmm(x(0), x(1).transpose(1, 2)), -1), x(1))),
      REPRISE_FUZZ_ROW("attention", "bbb>b", 0, "012", "", torch::scaled_dot_product_attention(x(0), x(1), x(2))),
      REPRISE_FUZZ_ROW("flash_attention", "bbb>b", 0, "012", "aten::_scaled_dot_product_flash_attention_for_cpu", torch::scaled_dot_product_attention(x(0).unsqueeze(0), x(1).unsqueeze(0), x(2).unsqueeze(0)).squeeze(0)),
      REPRISE_FUZZ_ROW("softmax", "a>a", kCommon, "o", "aten::_softmax", torch::softmax(x(0), -1)),
      REPRISE_FUZZ_ROW("log_softmax", "a>a", 0, "o", "aten::_log_softmax", torch::log_softmax(x(0), -1)),
      REPRISE_FUZZ_ROW("layer_norm", "avv>a", kCommon, "01", "aten::native_layer_norm", torch::layer_norm(x(0), {D}, x(1), x(2))),
      REPRISE_FUZZ_ROW("rms_norm", "av>a", 0, "01", "", torch::rms_norm(x(0), {D}, x(1), 1e-5)),
      REPRISE_FUZZ_ROW("group_norm", "avv>a", kRare, "01", "aten::native_group_norm", torch::group_norm(x(0), 2, x(1), x(2))),
      REPRISE_FUZZ_ROW("batch_norm", "avvvv>a", kCommon | kUpdatesStatistics, "01", "", torch::batch_norm(x(0), x(1), x(2), x(3), x(4), true, 0.1, 1e-5, false)),
      REPRISE_FUZZ_ROW("batch_norm_eval", "avvvv>a", kRare | kReadsStatistics, "01", "", torch::batch_norm(x(0), x(1), x(2), x(3), x(4).abs() + 1, false, 0.1, 1e-5, false)),
      REPRISE_FUZZ_ROW("glu", "a>h", 0, "0", "aten::glu", torch::glu(x(0), 1)),
      REPRISE_FUZZ_ROW("prelu", "av>a", 0, "01", "aten::_prelu_kernel", torch::prelu(x(0), x(1))),
      REPRISE_FUZZ_ROW("embedding", "wi>a", 0, "1", "aten::embedding", torch::embedding(x(0), x(1))),
      REPRISE_FUZZ_ROW("sparse_embedding", "wi>a", kRare | kNotReentrant, "1", "aten::embedding", torch::embedding(x(0), x(1), -1, false, true)),
      REPRISE_FUZZ_ROW("gather", "ai>a", 0, "1", "aten::gather", torch::gather(x(0), 1, x(1).unsqueeze(1)).expand({R, D}) * x(0)),
      REPRISE_FUZZ_ROW("index_add", "vi>v", kRare, "1", "aten::index_add", torch::index_add(x(0), 0, x(1), torch::ones({R}, options))),
      REPRISE_FUZZ_ROW("cross_entropy", "ai>s", 0, "1", "aten::nll_loss_forward", torch::cross_entropy_loss(x(0), x(1))),
      REPRISE_FUZZ_ROW("conv1d", "awv>a", 0, "01", "aten::convolution", torch::conv1d(x(0).t().unsqueeze(0), x(1).unsqueeze(2), x(2)).squeeze(0).t()),
      REPRISE_FUZZ_ROW("conv1d_wide", "aw>a", kRare, "0", "aten::convolution", torch::conv1d(x(0).t().unsqueeze(0), x(1).unsqueeze(2).expand({D, D, 3}), {}, 1, 1).squeeze(0).t()),
      REPRISE_FUZZ_ROW("max_pool1d", "a>a", kRare | kNotReentrant, "0", "", torch::max_pool1d(x(0).unsqueeze(0), 3, 1, 1).squeeze(0)),
      REPRISE_FUZZ_ROW("lstm_cell", "aaaww>aa", kMatmul | kNotReentrant, "0123", "", list(torch::lstm_cell(x(0), {x(1), x(2)}, four(x(3)), four(x(4))))),
      REPRISE_FUZZ_ROW("gru_cell", "aaww>a", kMatmul | kNotReentrant | kRare, "0123", "", torch::gru_cell(x(0), x(1), three(x(2)), three(x(3)))),
      REPRISE_FUZZ_ROW("lstm", "awwv>a", kNotReentrant | kUnhashable | kRare, "0123", "", std::get<0>(torch::lstm(x(0).unsqueeze(1), {x(3).reshape({1, 1, D}), x(3).reshape({1, 1, D})}, {four(x(1)), four(x(2))}, false, 1, 0.0, true, false, false)).squeeze(1)),
  };
}
// clang-format on

}  // namespace reprise::fuzz
