// Operators that draw random numbers, and those with an effect besides their result.
#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"

namespace reprise::fuzz {

using namespace helpers;  // NOLINT: rows name them as a printed program does

// clang-format off
std::vector<Operator> random_operators() {
  return {
      REPRISE_FUZZ_ROW("dropout", "x>x", kRandom | kCommon, "", "aten::bernoulli_.float", torch::dropout(x(0), 0.4, true)),
      REPRISE_FUZZ_ROW("native_dropout", "x>x", kRandom, "", "aten::native_dropout", std::get<0>(torch::native_dropout(x(0), 0.4, true))),
      REPRISE_FUZZ_ROW("alpha_dropout", "x>x", kRandom | kRare, "", "", torch::alpha_dropout(x(0), 0.4, true)),
      REPRISE_FUZZ_ROW("dropout_", "x>", kRandom | kWrites | kRare, "", "", drop_in_place(x(0))),
      REPRISE_FUZZ_ROW("rand_like", "x>x", kRandom | kDetached, "", "aten::rand_like", torch::rand_like(x(0))),
      REPRISE_FUZZ_ROW("randn_like", "x>x", kComplex | kRandom | kDetached | kRare, "", "aten::randn_like", torch::randn_like(x(0))),
      REPRISE_FUZZ_ROW("rand", ">a", kRandom | kExplicit | kDetached, "", "", torch::rand({R, D}, gen, options)),
      REPRISE_FUZZ_ROW("randn", ">a", kRandom | kExplicit | kDetached | kRare, "", "", torch::randn({R, D}, gen, options)),
      REPRISE_FUZZ_ROW("normal", "a>a", kRandom | kExplicit | kDetached | kRare, "", "aten::normal.Tensor_float", at::normal(x(0).detach(), 1.0, gen)),
      REPRISE_FUZZ_ROW("bernoulli", "a>a", kRandom | kExplicit | kDetached, "", "aten::bernoulli", torch::bernoulli(torch::sigmoid(x(0).detach()), gen)),
      REPRISE_FUZZ_ROW("multinomial", "a>i", kRandom | kExplicit | kDetached, "", "aten::multinomial", torch::multinomial(torch::softmax(x(0).detach(), 1), 1, true, gen).squeeze(1)),
      REPRISE_FUZZ_ROW("randint", ">i", kRandom | kExplicit | kDetached, "", "", torch::randint(D, {R}, gen, torch::kLong)),
      REPRISE_FUZZ_ROW("randperm", ">i", kRandom | kDetached | kRare, "", "", torch::randperm(R).remainder(D)),
      REPRISE_FUZZ_ROW("rrelu", "x>x", kRandom | kExplicit, "0", "", torch::rrelu(x(0), 0.1, 0.5, true, gen)),
      REPRISE_FUZZ_ROW("attention_dropout", "bbb>b", kRandom | kRare, "012", "", torch::scaled_dot_product_attention(x(0), x(1), x(2), {}, 0.3)),
      REPRISE_FUZZ_ROW("uniform_", "x>", kRandom | kExplicit | kWrites | kOverwrites | kRare, "", "", x(0).uniform_(0, 1, gen)),
      REPRISE_FUZZ_ROW("normal_", "x>", kRandom | kExplicit | kWrites | kOverwrites | kRare, "", "", x(0).normal_(0, 1, gen)),
      REPRISE_FUZZ_ROW("bernoulli_", "x>", kRandom | kExplicit | kWrites | kOverwrites | kRare, "", "", x(0).bernoulli_(0.5, gen)),
  };
}

std::vector<Operator> effect_operators() {
  return {
      REPRISE_FUZZ_ROW("fail", ">", kComplex | kNoWeight, "", "", fail()),
      REPRISE_FUZZ_ROW("fail_in_operator", "a>", kComplex | kNoWeight, "", "", torch::mm(x(0), torch::zeros({D + 1, 1}, options))),
      REPRISE_FUZZ_ROW("number_runs", "xn>x", kComplex | kEffectful, "", "", x(0) * (1 + 0.125 * static_cast<double>(ticket(x(1)) % 7))),
      REPRISE_FUZZ_ROW("manual_seed", ">", kRandom | kRisky | kRare, "", "", (torch::manual_seed(static_cast<uint64_t>(k)), at::Tensor())),
      REPRISE_FUZZ_ROW("reseed", ">", kRandom | kExplicit | kAlwaysExplicit | kDirect | kRisky | kRare, "", "", reseed(gen.value(), static_cast<uint64_t>(k))),
      REPRISE_FUZZ_ROW("draw_directly", ">s", kRandom | kExplicit | kAlwaysExplicit | kDirect | kDetached | kRare, "", "", draw_directly(gen.value(), options)),
      REPRISE_FUZZ_ROW("draw_from_copy", ">a", kRandom | kExplicit | kAlwaysExplicit | kDetached | kRare, "", "", draw_from_copy(gen.value(), {R, D}, options)),
  };
}

std::vector<Operator> hook_operators() {
  return {
      REPRISE_FUZZ_ROW("scale_gradient", "x>", kComplex | kNeedsGrad, "", "", scale_gradient(x(0), num)),
      REPRISE_FUZZ_ROW("count_gradient", "xn>", kComplex | kNeedsGrad, "", "", count_gradient(x(0), x(1))),
      REPRISE_FUZZ_ROW("track_gradient", "xg>", kComplex | kNeedsGrad, "", "", track_gradient(x(0), x(1))),
      REPRISE_FUZZ_ROW("noisy_gradient", "x>", kRandom | kNeedsGrad | kRare, "", "", noisy_gradient(x(0))),
      REPRISE_FUZZ_ROW("bend_gradient", "x>", kNeedsGrad | kRare, "", "", bend_gradient(x(0))),
      REPRISE_FUZZ_ROW("count_node", "xn>", kComplex | kNeedsGrad | kRare, "", "", count_node(x(0), x(1))),
      REPRISE_FUZZ_ROW("retain_grad", "x>", kComplex | kNeedsGrad | kRare, "", "", (x(0).retain_grad(), x(0))),
      REPRISE_FUZZ_ROW("fail_once", "x>", kComplex | kNoWeight, "", "", fail_once(x(0))),
  };
}
// clang-format on

}  // namespace reprise::fuzz
