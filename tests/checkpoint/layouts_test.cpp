// Tensors that are not plain strided memory pass through regions too.
#include "checkpoint/torch_versions.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

template <class Fn>
void expect_same_gradient(const at::Tensor& weight, const at::Tensor& input, const Fn& fn) {
  const auto gradient = [&](auto&& run) {
    weight.mutable_grad() = at::Tensor();
    run().sum().backward();
    return weight.grad().clone();
  };
  const auto plain = gradient([&] { return fn(input); });
  EXPECT_TRUE(bitwise_equal(plain, gradient([&] { return checkpoint(fn, input); })));
  EXPECT_TRUE(bitwise_equal(plain, gradient([&] {
                              return checkpoint(
                                  {.policy = policy::save_ops({"aten::tanh"})}, fn, input);
                            })));
  const auto inner = [fn](const at::Tensor& x) { return checkpoint(fn, x); };
  EXPECT_TRUE(bitwise_equal(plain, gradient([&] { return checkpoint(inner, input); })));
}

TEST(Layouts, NestedTensorsHaveNoSizesToCompare) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  const auto nested =
      at::_nested_tensor_from_tensor_list({torch::randn({2, 4}), torch::randn({3, 4})});
  expect_same_gradient(weight, nested, [weight](const at::Tensor& x) {
    return at::nested_to_padded_tensor(at::linear(x, weight), 0.0).tanh();
  });
}

TEST(Layouts, SparseInputs) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  expect_same_gradient(weight, torch::eye(4).to_sparse(), [weight](const at::Tensor& x) {
    return at::_sparse_mm(x, weight).tanh().square();
  });
}

/// A region under DeterminismCheck::Values whose fn does something else in the recompute: the
/// error, or nothing if it went unnoticed.
template <class Fn>
std::string difference_seen(const Fn& fn, bool differs) {
  bool is_recompute = false;
  const auto x = torch::ones({4, 4}).set_requires_grad(true);
  const auto y = checkpoint(
      {.determinism_check = DeterminismCheck::Values},
      [&](const at::Tensor& h) { return fn(h, is_recompute && differs); },
      x);
  is_recompute = true;
  try {
    y.sum().backward();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

template <class Fn>
void expect_values_are_compared(const Fn& fn) {
  EXPECT_EQ(difference_seen(fn, /*differs=*/false), "");
  const auto message = difference_seen(fn, /*differs=*/true);
  EXPECT_TRUE(contains(message, "came back with different values")) << message;
}

TEST(ValuesCheck, ReadsNestedTensors) {
  expect_values_are_compared([](const at::Tensor& h, bool differs) {
    const auto nested = at::_nested_tensor_from_tensor_list(
        {torch::full({2, 4}, differs ? 2.0 : 1.0), torch::ones({3, 4})});
    return at::nested_to_padded_tensor(at::linear(nested, h), 0.0).sin();
  });
  // The same buffer, cut in another way.
  expect_values_are_compared([](const at::Tensor& h, bool differs) {
    const auto nested = at::_nested_tensor_from_tensor_list(
        {torch::ones({differs ? 3 : 2, 4}), torch::ones({differs ? 2 : 3, 4})});
    return at::linear(nested, h).to_padded_tensor(0.0).sum();
  });
}

TEST(ValuesCheck, ReadsNestedTensorsThatAreViews) {
  expect_values_are_compared([](const at::Tensor& h, bool differs) {
    const auto nested = at::_nested_tensor_from_tensor_list(
        {torch::arange(8.0).view({2, 4}) * (differs ? 2 : 1), torch::ones({2, 4})});
    return at::bmm(nested.transpose(1, 2).transpose(1, 2),
                   at::_nested_tensor_from_tensor_list({h, h}))
        .to_padded_tensor(0.0)
        .sum();
  });
}

#if REPRISE_NAMED_TENSORS
TEST(ValuesCheck, ReadsNamedTensors) {
  const auto names = std::vector<at::Dimname>{at::Dimname::fromSymbol(at::Symbol::dimname("N")),
                                              at::Dimname::fromSymbol(at::Symbol::dimname("C"))};
  expect_values_are_compared([names](const at::Tensor& h, bool differs) {
    return (h * (differs ? 2 : 1)).rename(names).exp().tanh().rename(std::nullopt);
  });
}
#endif

TEST(ValuesCheck, ReadsSparseTensors) {
  for (const auto layout : {at::kSparse, at::kSparseCsr}) {
    expect_values_are_compared([layout](const at::Tensor& h, bool differs) {
      const auto values = torch::eye(4) * (differs ? 2 : 1);
      return at::mm(values.to_sparse(layout), h).sin();
    });
    expect_values_are_compared([layout](const at::Tensor& h, bool differs) {
      const auto permuted = differs ? torch::eye(4).flip(0) : torch::eye(4);
      return at::mm(permuted.to_sparse(layout), h).sum();
    });
  }
}

TEST(ValuesCheck, RefusesWhatItCannotRead) {
  const auto weight = torch::randn({4, 4}).set_requires_grad(true);
  const auto refusal = [](const auto& fn, const at::Tensor& x) {
    return message_of<CheckpointError>(
        [&] { checkpoint({.determinism_check = DeterminismCheck::Values}, fn, x); });
  };
  EXPECT_TRUE(contains(refusal([](const at::Tensor& h) { return h.exp(); },
                               torch::ones({4}, at::kMeta).set_requires_grad(true)),
                       "on the meta device"));
  EXPECT_TRUE(
      contains(refusal([](const at::Tensor& h) { return h.to_mkldnn().sigmoid().to_dense(); },
                       torch::ones({4}).set_requires_grad(true)),
               "of layout Mkldnn"));
}

/// oneDNN saves a workspace of which it writes only a part. See Note [Workspaces are not compared].
TEST(ValuesCheck, IgnoresTheWorkspacesOfRecurrentLayers) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(5, 7).num_layers(2).bidirectional(true));
  const auto fn = [layers = lstm.ptr()](const at::Tensor& x) {
    return std::get<0>(layers->forward(x));
  };
  const auto x = torch::randn({3, 2, 5}).set_requires_grad(true);
  for (int i = 0; i < 20; ++i) {
    std::vector<at::Tensor> junk;
    const auto y = checkpoint({.determinism_check = DeterminismCheck::Values}, fn, x).sum();
    for (int64_t size = 64; size < 1 << 16; size *= 2) {  // so that memory is not clean
      junk.push_back(torch::full({size}, i + 1, at::kByte));
    }
    junk.clear();
    y.backward();
  }
}

/// The results beside a workspace are compared.
TEST(ValuesCheck, SeesWeightsOfRecurrentLayersThatChange) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 4));
  expect_values_are_compared([layer = lstm.ptr()](const at::Tensor& h, bool differs) {
    return std::get<0>(layer->forward((h * (differs ? 2 : 1)).unsqueeze(0)));
  });
}

TEST(Layouts, ChannelsLastAndConjugatedViews) {
  const auto image = torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto weight = torch::randn({3, 3, 3, 3}).set_requires_grad(true);
  expect_same_gradient(
      weight, image, [weight](const at::Tensor& x) { return torch::conv2d(x, weight).tanh(); });
  const auto complex = torch::randn({3}, torch::kComplexFloat).set_requires_grad(true);
  expect_same_gradient(
      complex, torch::randn({3}, torch::kComplexFloat), [complex](const at::Tensor& x) {
        return at::real((complex.conj() * x).tanh());
      });
}

}  // namespace
}  // namespace reprise::testing
