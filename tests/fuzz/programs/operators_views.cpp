// Views, and operators that write their first input.
#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"

namespace reprise::fuzz {

using namespace helpers;  // NOLINT: rows name them as a printed program does

// clang-format off
std::vector<Operator> view_operators() {
  return {
      REPRISE_FUZZ_ROW("transpose", "a>t", kComplex | kView, "", "", x(0).transpose(0, 1)),
      REPRISE_FUZZ_ROW("transpose_back", "t>a", kComplex | kView, "", "", x(0).t()),
      REPRISE_FUZZ_ROW("left", "a>h", kComplex | kView, "", "", x(0).narrow(1, 0, H)),
      REPRISE_FUZZ_ROW("right", "a>h", kComplex | kView, "", "", x(0).narrow(1, H, H)),
      REPRISE_FUZZ_ROW("chunk", "a>hh", kComplex | kView | kManyViews, "", "", x(0).chunk(2, 1)),
      REPRISE_FUZZ_ROW("unsafe_chunk", "a>hh", kComplex, "", "", x(0).unsafe_chunk(2, 1)),
      REPRISE_FUZZ_ROW("heads", "a>b", kComplex | kView, "", "", x(0).reshape({R, 2, H}).transpose(0, 1)),
      REPRISE_FUZZ_ROW("join_heads", "b>a", kComplex, "", "", x(0).transpose(0, 1).reshape({R, D})),
      REPRISE_FUZZ_ROW("expand", "v>a", kComplex | kView | kManyViews, "", "", x(0).expand({R, D})),
      REPRISE_FUZZ_ROW("row", "a>v", kComplex | kView, "", "", x(0).select(0, 0)),
      REPRISE_FUZZ_ROW("unbind", "a>v", kComplex | kView | kManyViews | kRare, "", "", x(0).unbind(0)[0]),
      REPRISE_FUZZ_ROW("diagonal", "w>v", kComplex | kView | kRare, "", "", x(0).diagonal()),
      REPRISE_FUZZ_ROW("as_strided", "a>h", kView | kRare, "", "", x(0).contiguous().as_strided({R, H}, {D, 1}, 0)),
      REPRISE_FUZZ_ROW("reshape", "a>a", kComplex | kView, "", "", x(0).reshape({D, R}).reshape({R, D})),
      REPRISE_FUZZ_ROW("same_dtype", "x>x", kComplex | kView | kRare, "", "", x(0).to(x(0).scalar_type())),
      REPRISE_FUZZ_ROW("detach", "x>x", kComplex | kView | kDetached, "", "", x(0).detach()),
      REPRISE_FUZZ_ROW("copy_of_detached", "x>x", kComplex | kDetached | kRare, "", "", x(0).detach().clone()),
      REPRISE_FUZZ_ROW("new_leaf", "x>x", kComplex | kNoWeight, "", "", x(0).detach().clone().set_requires_grad(true)),
      REPRISE_FUZZ_ROW("zeros", ">a", kComplex | kDetached | kRare, "", "", torch::zeros({R, D}, options)),
  };
}

std::vector<Operator> write_operators() {
  return {
      REPRISE_FUZZ_ROW("add_", "xx>", kComplex | kWrites | kCommon, "", "", x(0).add_(x(1))),
      REPRISE_FUZZ_ROW("sub_", "xx>", kComplex | kWrites | kRare, "", "", x(0).sub_(x(1), num)),
      REPRISE_FUZZ_ROW("mul_", "xx>", kComplex | kWrites | kRare, "1", "", x(0).mul_(x(1))),
      REPRISE_FUZZ_ROW("scale_", "x>", kComplex | kWrites | kCommon, "", "", x(0).mul_(num)),
      REPRISE_FUZZ_ROW("tanh_", "x>", kComplex | kWrites, "0", "", x(0).tanh_()),
      REPRISE_FUZZ_ROW("relu_", "x>", kWrites, "0", "", x(0).relu_()),
      REPRISE_FUZZ_ROW("sigmoid_", "x>", kWrites | kRare, "0", "", x(0).sigmoid_()),
      REPRISE_FUZZ_ROW("clamp_", "x>", kWrites | kRare, "", "", x(0).clamp_(-num, num)),
      REPRISE_FUZZ_ROW("copy_", "xx>", kComplex | kWrites | kOverwrites, "", "", x(0).copy_(x(1))),
      REPRISE_FUZZ_ROW("zero_", "x>", kComplex | kWrites | kOverwrites | kRare, "", "", x(0).zero_()),
      REPRISE_FUZZ_ROW("fill_", "x>", kComplex | kWrites | kOverwrites | kRare, "", "", x(0).fill_(num)),
      REPRISE_FUZZ_ROW("masked_fill_", "am>", kWrites | kRare, "1", "", x(0).masked_fill_(x(1), num)),
      REPRISE_FUZZ_ROW("average_", "xx>", kComplex | kWrites, "", "", x(0).mul_(0.9).add_(x(1).detach(), 0.1)),
      REPRISE_FUZZ_ROW("lerp_", "xx>", kWrites | kRare, "", "", x(0).lerp_(x(1), num)),
      REPRISE_FUZZ_ROW("row_add_", "av>", kComplex | kWrites, "", "", x(0).select(0, 0).add_(x(1))),
      REPRISE_FUZZ_ROW("row_copy_", "av>", kComplex | kWrites, "", "", x(0).select(0, k % R).copy_(x(1))),
      REPRISE_FUZZ_ROW("half_mul_", "ah>", kComplex | kWrites | kRare, "1", "", x(0).narrow(1, 0, H).mul_(x(1))),
      REPRISE_FUZZ_ROW("addmm_", "aaw>", kComplex | kWrites | kMatmul | kRare, "12", "", x(0).addmm_(x(1), x(2))),
      REPRISE_FUZZ_ROW("index_fill_", "vi>", kWrites | kRare, "1", "", x(0).index_fill_(0, x(1), num)),
      REPRISE_FUZZ_ROW("index_put_", "vi>", kWrites | kRare, "1", "", x(0).index_put_({x(1)}, torch::ones({R}, options))),
      REPRISE_FUZZ_ROW("count_", "n>", kWrites, "", "", x(0).add_(1)),
      REPRISE_FUZZ_ROW("t_", "w>", kComplex | kWrites | kRisky | kRare, "", "", x(0).t_()),
      REPRISE_FUZZ_ROW("unsqueeze_", "x>", kComplex | kWrites | kRisky | kRare, "", "", x(0).unsqueeze_(0).squeeze_(0)),
      REPRISE_FUZZ_ROW("data_add_", "xx>", kComplex | kWrites | kRisky | kRare, "", "", x(0).data().add_(x(1).detach())),
      REPRISE_FUZZ_ROW("zero_gradient", "x>", kComplex | kRisky | kLeafOnly | kRare, "", "", zero_gradient(x(0))),
      REPRISE_FUZZ_ROW("gradient_of", "x>x", kComplex | kDetached | kRisky | kLeafOnly | kRare, "", "", gradient_of(x(0))),
      REPRISE_FUZZ_ROW("train", "x>", kComplex | kWrites | kRisky | kLeafOnly | kRare, "", "", sgd_step(x(0))),
      REPRISE_FUZZ_ROW("set_data", "xx>", kWrites | kRisky | kRare, "", "", (x(0).set_data(x(1).detach().clone()), x(0))),
      REPRISE_FUZZ_ROW("sgd_step", "x>", kComplex | kNoWeight, "", "", sgd_step(x(0))),
  };
}
// clang-format on

}  // namespace reprise::fuzz
