// LibTorch's own containers as arguments and results of regions: c10::IValue, c10::List, c10::Dict,
// torch::OrderedDict, PackedSequence; and std::variant.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::testing {
namespace {

namespace rnn = torch::nn::utils::rnn;

const std::vector<CheckpointOptions>& both_variants() {
  static const std::vector<CheckpointOptions> options{{}, {.use_reentrant = true}};
  return options;
}

/// The gradient of x when `fn(pack(x))` runs plainly and in regions.
template <class Pack, class F>
void expect_the_plain_gradient(const Pack& pack, const F& fn) {
  const auto gradient = [&](const auto& run) {
    const auto x = ramp_leaf({2, 3});
    run(pack(x.exp())).sum().backward();
    return x.grad();
  };
  const auto plain = gradient([&](auto value) { return fn(value); });
  for (const auto& options : both_variants()) {
    // A reentrant region wants an argument that requires grad among its own: the packed one does.
    EXPECT_TRUE(
        bitwise_equal(plain, gradient([&](auto value) { return checkpoint(options, fn, value); })));
  }
  EXPECT_TRUE(bitwise_equal(plain, gradient([&](auto value) {
                              return checkpoint([fn](auto& v) { return checkpoint(fn, v); }, value);
                            })));
}

TEST(TorchTypes, Variants) {
  using Either = std::variant<int, at::Tensor, std::vector<at::Tensor>>;
  const auto fn = [](const Either& either) {
    return std::holds_alternative<at::Tensor>(either)
               ? std::get<at::Tensor>(either).sin().exp()
               : std::get<std::vector<at::Tensor>>(either).at(1).tanh().exp();
  };
  expect_the_plain_gradient([](const at::Tensor& x) { return Either(x); }, fn);
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        return Either(std::vector<at::Tensor>{x.sin(), x});
      },
      fn);
}

TEST(TorchTypes, Lists) {
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        return c10::List<at::Tensor>({x.sin(), x});
      },
      [](const c10::List<at::Tensor>& list) { return list.get(0).exp() * list.get(1).tanh(); });
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        return std::make_pair(c10::List<c10::List<at::Tensor>>({c10::List<at::Tensor>({x})}),
                              c10::List<int64_t>({3}));
      },
      [](const auto& pair) { return pair.first.get(0).get(0).exp() * pair.second.get(0); });
}

TEST(TorchTypes, Dictionaries) {
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        c10::Dict<std::string, at::Tensor> dict;
        dict.insert("b", x.sin());
        dict.insert("a", x);
        return dict;
      },
      [](const auto& dict) { return dict.at("a").exp() * dict.at("b").tanh(); });
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        torch::OrderedDict<std::string, at::Tensor> dict;
        dict.insert("b", x.sin());
        dict.insert("a", x);
        return dict;
      },
      [](const auto& dict) { return dict["a"].exp() * dict["b"].tanh(); });
}

TEST(TorchTypes, IValues) {
  expect_the_plain_gradient([](const at::Tensor& x) { return c10::IValue(x); },
                            [](const c10::IValue& value) { return value.toTensor().sin().exp(); });
  expect_the_plain_gradient(
      [](const at::Tensor& x) {
        c10::Dict<std::string, at::Tensor> dict;
        dict.insert("x", x);
        const c10::IValue list(c10::List<at::Tensor>({x.sin()}));
        return c10::IValue(c10::ivalue::Tuple::create(
            {list, dict, c10::IValue(), 2.0, std::string("name"), c10::List<int64_t>({1})}));
      },
      [](const c10::IValue& value) {
        const auto elements = value.toTuple()->elements().vec();
        TORCH_CHECK(elements.at(2).isNone() && elements.at(4).toStringRef() == "name" &&
                    elements.at(5).toIntVector().at(0) == 1);
        return elements.at(0).toTensorVector().at(0).exp() *
               elements.at(1).toGenericDict().at("x").toTensor().tanh() * elements.at(3).toDouble();
      });
}

TEST(TorchTypes, PackedSequences) {
  torch::manual_seed(3);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 4));
  const auto fn = [layer = lstm.ptr()](const rnn::PackedSequence& packed) {
    return std::get<0>(layer->forward_with_packed_input(packed));
  };
  const auto gradient = [&](const auto& run) {
    const auto x = ramp_leaf({4, 2, 3});
    const auto packed = rnn::pack_padded_sequence(
        x.exp(), torch::tensor({2, 4}), /*batch_first=*/false, /*enforce_sorted=*/false);
    lstm->zero_grad();
    std::get<0>(rnn::pad_packed_sequence(run(packed))).square().sum().backward();
    return std::vector<at::Tensor>{x.grad(), lstm->parameters()[0].grad().clone()};
  };
  const auto plain = gradient([&](const auto& packed) { return fn(packed); });
  expect_bitwise_equal(plain, gradient([&](const auto& packed) { return checkpoint(fn, packed); }));
  // In no-grad mode the layer computes other bits (docs/checkpointing.md), so only nearly.
  const auto reentrant =
      gradient([&](const auto& packed) { return checkpoint({.use_reentrant = true}, fn, packed); });
  EXPECT_TRUE(torch::allclose(plain[0], reentrant[0]));
}

TEST(TorchTypes, AreResultsOfReentrantRegions) {
  const auto x = ramp_leaf({3});
  const CheckpointOptions reentrant{.use_reentrant = true};
  const c10::List<at::Tensor> held({x * 1});
  const auto list = checkpoint(
      reentrant,
      [](c10::List<at::Tensor>& same) {
        same.set(0, same.get(0).sin());
        return same;
      },
      held);
  const auto value = checkpoint(
      reentrant,
      [](const at::Tensor& h) { return c10::IValue(c10::List<at::Tensor>({h.exp()})); },
      x);
  EXPECT_TRUE(list.get(0).requires_grad());
  EXPECT_FALSE(
      held.get(0).requires_grad());  // forward wrote it without a graph, as it runs without
  (list.get(0).sum() + value.toTensorVector().at(0).sum()).backward();
  const auto expected = torch::autograd::grad({((x * 1).sin().sum() + x.exp().sum())}, {x})[0];
  EXPECT_TRUE(torch::allclose(x.grad(), expected));
}

/// A list is a handle: what the callable does to it is seen by the caller, once.
TEST(TorchTypes, AListThatTheCallableChangesIsChangedOnce) {
  const auto x = ramp_leaf({3});
  c10::List<at::Tensor> list({x.exp()});
  const auto append = [](c10::List<at::Tensor>& all) {
    const auto y = all.get(0).sin().exp();
    all.push_back(y.detach());
    return y;
  };
  const auto y = checkpoint(append, list);
  EXPECT_EQ(list.size(), 2U);
  list.set(0, at::Tensor());  // the region has a list of its own
  torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
  const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(list.size(), 2U);
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({x.exp().sin().exp().sum()}, {x})[0]));
}

/// Also where autograd saves none of them.
TEST(TorchTypes, TensorsInsideAreCheckedForChanges) {
  const auto x = ramp_leaf({3});
  const auto check = [&](auto argument, const at::Tensor& inside, auto fn) {
    const auto y = checkpoint(fn, argument).sum();
    inside.detach().add_(1);
    const auto message = message_of<CheckpointError>([&] { y.backward(); });
    EXPECT_TRUE(contains(message, "was changed in place after the region used it")) << message;
  };
  const auto list = x.exp();
  check(c10::List<at::Tensor>({list}), list, [](const auto& l) { return (l.get(0) + 1).sin(); });
  const auto value = x.exp();
  check(c10::IValue(value), value, [](const auto& v) { return (v.toTensor() + 1).sin(); });
  const auto either = x.exp();
  check(std::variant<int, at::Tensor>(either), either, [](const auto& v) {
    return (std::get<at::Tensor>(v) + 1).sin();
  });
}

TEST(TorchTypes, AnIValueThatMayHideTensorsIsRefused) {
  const auto fn = [](const c10::IValue&) { return ramp_leaf({3}).exp(); };
  const c10::IValue future(c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get()));
  const auto message = message_of<CheckpointError>([&] { checkpoint(fn, future); });
  EXPECT_TRUE(contains(message, "holds Future")) << message;
  c10::Dict<at::Tensor, at::Tensor> keyed;
  keyed.insert(torch::ones({1}), torch::ones({1}));
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { checkpoint(fn, c10::IValue(keyed)); }),
                       "tensors as keys"));
}

}  // namespace
}  // namespace reprise::testing
