// Which operators a policy names, what it is asked, and what it is refused. What keeping does to a
// region is tested in policy_replay_test.cpp.
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using policy::save_ops;

at::Tensor weight() {
  return torch::full({4, 4}, 0.25).requires_grad_();
}

/// One matrix product, one addition, one tanh.
at::Tensor layer(const at::Tensor& w, const at::Tensor& x) {
  return torch::tanh(torch::mm(x, w) + x);
}

std::string refusal(std::vector<std::string> names) {
  return message_of<CheckpointError>([&] { save_ops(std::move(names)); });
}

/// The names of the operators of `fn`'s forward, each with the last overload seen, as a policy is
/// shown them.
template <class Fn>
std::vector<std::string> seen_by_policy(Fn fn, const at::Tensor& x) {
  auto names = std::make_shared<std::vector<std::string>>();
  checkpoint({.policy = policy::from([names](const OpContext& op) {
                names->push_back(std::string(op.name) + "." + std::string(op.overload));
                return Decision::Recompute;
              })},
             fn,
             x);
  return *names;
}

/// Keeps results with a negative element.
class NegativeResults final : public Policy {
 public:
  Decision decide(const OpContext& op) const override {
    EXPECT_EQ(op.results.size(), 1);
    return op.results[0].toTensor().lt(0).any().item<bool>() ? Decision::Keep : Decision::Recompute;
  }
  bool reads_results() const override { return true; }
  std::string describe() const override { return "negative results"; }
};

TEST(Policy, MayReadTheResults) {
  const auto run = [](const CheckpointOptions& options) {
    auto x = torch::tensor({1.0, 2.0}).requires_grad_();
    checkpoint(
        options, [](at::Tensor h) { return h.exp().neg().tanh().exp().exp(); }, x)
        .sum()
        .backward();
    return x.grad();
  };
  const auto expected = run({});
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto grad = run({.policy = std::make_shared<NegativeResults>()});
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 2);  // neg and the first tanh
  record_checkpoint_stats(false);
  EXPECT_TRUE(bitwise_equal(grad, expected));
}

TEST(SaveOpsNames, UnknownNameIsRefusedWithTheNearest) {
  EXPECT_TRUE(contains(refusal({"aten::mn"}), "\"aten::mn\" is not a known operator"));
  EXPECT_TRUE(contains(refusal({"aten::addmmm"}), "Did you mean \"aten::addmm\"?"));
  EXPECT_TRUE(contains(refusal({"aten::mm", "aten::native_layer_nrom"}),
                       "Did you mean \"aten::native_layer_norm\"?"));
  EXPECT_TRUE(
      contains(refusal({"aten::add.Tensro"}), "\"aten::add.Tensro\" is not a known operator"));
  EXPECT_TRUE(contains(refusal({""}), "is not a known operator"));
}

TEST(SaveOpsNames, NameWithoutNamespaceSuggestsTheWholeName) {
  EXPECT_TRUE(
      contains(refusal({"native_layer_norm"}), "Did you mean \"aten::native_layer_norm\"?"));
  EXPECT_TRUE(contains(refusal({"mm"}), "Did you mean \"aten::mm\"?"));
}

TEST(SaveOpsNames, WrongOverloadListsThoseThereAre) {
  const auto message = refusal({"aten::add.Tensro"});
  EXPECT_TRUE(contains(message, "aten::add.Tensor"));
  EXPECT_TRUE(contains(message, "aten::add.Scalar"));
}

TEST(SaveOpsNames, NoNameIsRefused) {
  EXPECT_TRUE(contains(refusal({}), "at least one operator"));
}

TEST(SaveOpsNames, CompositesAreRefusedWithWhatToNameInstead) {
  const std::map<std::string, std::string> hints{
      {"aten::linear", "aten::addmm"},
      {"aten::matmul", "aten::mm"},
      {"aten::scaled_dot_product_attention", "policy::save_attention()"},
      {"aten::layer_norm", "aten::native_layer_norm"},
      {"aten::einsum", "aten::bmm"},
      {"aten::conv2d", "aten::convolution"},
      {"aten::cross_entropy_loss", "the operators it is made of"}};
  for (const auto& [name, hint] : hints) {
    const auto message = refusal({name});
    EXPECT_TRUE(contains(message, name + ": it is a composite")) << name;
    EXPECT_TRUE(contains(message, hint)) << name;
  }
}

TEST(SaveOpsNames, WhatTheHintsNameReallyRuns) {
  const auto w = weight();
  const auto x = torch::ones({2, 4, 4});
  using torch::nn::functional::layer_norm;
  const auto names = seen_by_policy(
      [w](const at::Tensor& t) {
        auto y = torch::linear(t[0], w, w[0]) + torch::matmul(t[0], w);
        y = y + torch::einsum("ij,jk->ik", {t[0], w});
        return layer_norm(y, torch::nn::functional::LayerNormFuncOptions({4})) +
               torch::softmax(y, 0);
      },
      x);
  const std::set<std::string> set(names.begin(), names.end());
  for (const std::string expected :
       {"aten::addmm.", "aten::mm.", "aten::bmm.", "aten::native_layer_norm.", "aten::_softmax."}) {
    EXPECT_EQ(set.count(expected), 1U) << expected;
  }
  for (const std::string composite :
       {"aten::linear.", "aten::matmul.", "aten::einsum.", "aten::layer_norm."}) {
    EXPECT_EQ(set.count(composite), 0U) << composite;
  }
}

TEST(SaveOpsNames, OperatorsThatWriteTheirArgumentsAreRefused) {
  for (const std::string name :
       {"aten::add_", "aten::mul_.Tensor", "aten::mm.out", "aten::bernoulli_"}) {
    EXPECT_TRUE(contains(refusal({name}), name + ": it writes its arguments")) << name;
  }
}

TEST(SaveOpsNames, APacketMeansEveryOverloadAndAnOverloadOnlyItself) {
  const auto w = weight();
  const auto kept = [&w](const std::string& name) {
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
    const auto both = [w](const at::Tensor& x) { return (torch::mm(x, w) + x) * 2 * w + 1; };
    checkpoint({.policy = save_ops({name})}, both, torch::ones({4, 4})).sum().backward();
    record_checkpoint_stats(false);
    return checkpoint_stats().total.bytes_kept / (4 * 4 * sizeof(float));
  };
  EXPECT_EQ(kept("aten::mm"), 1U);
  EXPECT_EQ(kept("aten::mm.default"), 1U);
  EXPECT_EQ(kept("aten::mul"), 2U);
  EXPECT_EQ(kept("aten::mul.Tensor"), 1U);
  EXPECT_EQ(kept("aten::mul.Scalar"), 1U);
  EXPECT_EQ(kept("aten::add"), 2U);
}

TEST(SaveOpsNames, ANameThatMatchedNothingIsAnErrorThatNamesIt) {
  const auto w = weight();
  const auto run = [&w](std::vector<std::string> names) {
    return message_of<CheckpointError>([&] {
      checkpoint(
          {.policy = save_ops(names), .name = "block 3"},
          [w](const at::Tensor& x) { return layer(w, x); },
          torch::ones({4, 4}));
    });
  };
  const auto message = run({"aten::mm", "aten::bmm"});
  EXPECT_TRUE(contains(message, "aten::bmm never ran"));
  EXPECT_TRUE(contains(message, "save_ops(aten::mm, aten::bmm)"));
  EXPECT_TRUE(contains(message, "block 3"));
  EXPECT_TRUE(contains(run({"aten::add.Scalar"}), "aten::add.Scalar never ran"));
}

TEST(SaveOpsNames, AnErrorOfThePolicyLeavesNoStateBehind) {
  const auto w = weight();
  const auto run = [&w](const std::string& name) {
    return checkpoint(
        {.policy = save_ops({name})},
        [w](const at::Tensor& x) { return layer(w, x); },
        torch::ones({4, 4}));
  };
  EXPECT_THROW(run("aten::bmm"), CheckpointError);
  const auto y = run("aten::mm");
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {w})[0],
                            torch::autograd::grad({layer(w, torch::ones({4, 4})).sum()}, {w})[0]));
}

/// Attention on the fused or on the math path.
class AttentionPath {
 public:
  explicit AttentionPath(bool is_fused) : was_(at::globalContext().userEnabledFlashSDP()) {
    at::globalContext().setSDPUseFlash(is_fused);
  }
  ~AttentionPath() { at::globalContext().setSDPUseFlash(was_); }

 private:
  bool was_;
};

at::Tensor attention(const at::Tensor& q) {
  return at::scaled_dot_product_attention(q, q, q);
}

TEST(SaveAttention, KeepsTheFusedOperator) {
  const AttentionPath fused(true);
  const auto q = torch::randn({1, 2, 8, 4}).requires_grad_();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto y = checkpoint({.policy = policy::save_attention()}, attention, q);
  const auto gradient = torch::autograd::grad({y.square().sum()}, {q})[0];
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 1U);
  record_checkpoint_stats(false);
  EXPECT_TRUE(
      bitwise_equal(gradient, torch::autograd::grad({attention(q).square().sum()}, {q})[0]));
}

TEST(SaveAttention, OnTheMathPathIsAnError) {
  const AttentionPath math(false);
  const auto q = torch::randn({1, 2, 8, 4}).requires_grad_();
  const auto message = message_of<CheckpointError>(
      [&] { checkpoint({.policy = policy::save_attention()}, attention, q); });
  EXPECT_TRUE(contains(message, "save_attention() kept nothing"));
  EXPECT_TRUE(contains(message, "math path"));
}

TEST(SaveMatmuls, KeepsEveryNthBeginningWithTheFirst) {
  const auto w = weight();
  const auto kept_of_five = [&w](size_t every) {
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
    const auto five = [w](at::Tensor x) {
      for (int i = 0; i < 5; ++i) {
        x = torch::tanh(i % 2 == 0 ? torch::mm(x, w) : torch::addmm(x, x, w));
      }
      return x;
    };
    checkpoint({.policy = policy::save_matmuls(every)}, five, torch::ones({4, 4})).sum().backward();
    record_checkpoint_stats(false);
    EXPECT_EQ(checkpoint_stats().total.bytes_kept, checkpoint_stats().total.ops_replayed * 64);
    return checkpoint_stats().total.ops_replayed;
  };
  EXPECT_EQ(kept_of_five(1), 5U);
  EXPECT_EQ(kept_of_five(2), 3U);
  EXPECT_EQ(kept_of_five(3), 2U);
  EXPECT_EQ(kept_of_five(100), 1U);
}

TEST(SaveMatmuls, EveryZerothIsRefusedAndSoIsARegionWithoutAny) {
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([] { policy::save_matmuls(0); }), "counts from 1"));
  const auto x = torch::ones({4}).requires_grad_();
  const auto message = message_of<CheckpointError>([&] {
    checkpoint(
        {.policy = policy::save_matmuls()}, [](const at::Tensor& t) { return t.exp(); }, x);
  });
  EXPECT_TRUE(contains(message, "no matrix product ran"));
}

TEST(CallbackPolicy, SeesNamesClassesCountsAndArgumentsAndOnlyInForward) {
  struct Seen {
    std::string name, overload;
    OpClass op_class;
    size_t call_index, class_index;
    std::vector<int64_t> first_sizes;
  };
  auto seen = std::make_shared<std::vector<Seen>>();
  const auto spy = policy::from([seen](const OpContext& op) {
    seen->push_back({std::string(op.name),
                     std::string(op.overload),
                     op.op_class,
                     op.call_index,
                     op.class_index,
                     op.arguments[0].toTensor().sizes().vec()});
    return Decision::Keep;
  });
  const auto w = weight();
  const auto y = checkpoint(
      {.policy = spy},
      [w](at::Tensor x) {
        x = torch::mm(x, w) + x;
        return torch::mm(torch::addmm(x, x, w), w);
      },
      torch::ones({3, 4}).requires_grad_());
  const auto expect_call =
      [&](size_t i, const char* name, const char* overload, OpClass c, size_t call, size_t index) {
        EXPECT_EQ((*seen)[i].name, name);
        EXPECT_EQ((*seen)[i].overload, overload);
        EXPECT_EQ((*seen)[i].op_class, c) << i;
        EXPECT_EQ((*seen)[i].call_index, call) << i;
        EXPECT_EQ((*seen)[i].class_index, index) << i;
        EXPECT_EQ((*seen)[i].first_sizes, (std::vector<int64_t>{3, 4})) << i;
      };
  ASSERT_EQ(seen->size(), 4U);
  expect_call(0, "aten::mm", "", OpClass::Matmul, 0, 0);
  expect_call(1, "aten::add", "Tensor", OpClass::Other, 0, 0);
  expect_call(2, "aten::addmm", "", OpClass::Matmul, 0, 1);
  expect_call(3, "aten::mm", "", OpClass::Matmul, 1, 2);
  torch::autograd::backward({y.sum()}, {}, /*retain_graph=*/true);
  y.sum().backward();
  EXPECT_EQ(seen->size(), 4U);
}

TEST(CallbackPolicy, OffloadOnTheCpuAndCompressOfNumbersAreRefusedByName) {
  for (const auto& [decision, why] :
       {std::pair(Decision::Offload, "in host memory already"),
        std::pair(Decision::Compress, "CheckpointOptions::allow_lossy")}) {
    const auto message = message_of<CheckpointError>([decided = decision] {
      checkpoint(
          {.policy = policy::from([decided](const OpContext&) { return decided; }, "my policy")},
          [](const at::Tensor& x) { return x.exp(); },
          torch::ones({2}).requires_grad_());
    });
    EXPECT_TRUE(contains(message, "my policy"));
    EXPECT_TRUE(contains(message, "aten::exp"));
    EXPECT_TRUE(contains(message, why));
  }
}

TEST(CallbackPolicy, KeepOnAnOperatorThatWritesItsArgumentsIsRefusedByName) {
  const auto message = message_of<CheckpointError>([] {
    checkpoint(
        {.policy = policy::from([](const OpContext&) { return Decision::Keep; })},
        [](const at::Tensor& x) { return x.exp().mul_(x); },
        torch::ones({2}).requires_grad_());
  });
  EXPECT_TRUE(contains(message, "aten::mul_.Tensor"));
  EXPECT_TRUE(contains(message, "writes its arguments"));
}

TEST(CallbackPolicy, NoCallbackIsRefused) {
  EXPECT_THROW(policy::from(nullptr), CheckpointError);
}

TEST(OpClasses, AreKnownForMatricesAndAttentionAndDeclaredForOthers) {
  EXPECT_EQ(op_class("aten::mm"), OpClass::Matmul);
  EXPECT_EQ(op_class("aten::baddbmm"), OpClass::Matmul);
  EXPECT_EQ(op_class("aten::_scaled_dot_product_flash_attention"), OpClass::Attention);
  EXPECT_EQ(op_class("aten::exp2"), OpClass::Other);
  EXPECT_THROW(op_class("aten::nothing_of_the_kind"), CheckpointError);
  EXPECT_THROW(register_op_class("aten::nothing_of_the_kind", OpClass::Matmul), CheckpointError);
  register_op_class("aten::exp2", OpClass::Matmul);
  EXPECT_EQ(op_class("aten::exp2"), OpClass::Matmul);
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  checkpoint(
      {.policy = policy::save_matmuls()},
      [](const at::Tensor& x) { return x.exp2().sin(); },
      torch::ones({2}).requires_grad_())
      .sum()
      .backward();
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 1U);
  record_checkpoint_stats(false);
  register_op_class("aten::exp2", OpClass::Other);
  EXPECT_EQ(op_class("aten::exp2"), OpClass::Other);
}

TEST(CallbackPolicy, MayAskForOperatorClasses) {
  const auto x = torch::randn({3, 3}).set_requires_grad(true);
  const auto asks = policy::from([](const OpContext& op) {
    register_op_class("aten::cosh", OpClass::Other);  // clears what the engine has looked up
    return op_class(std::string(op.name), std::string(op.overload)) == OpClass::Matmul
               ? Decision::Keep
               : Decision::Recompute;
  });
  checkpoint(
      {.policy = asks}, [](at::Tensor h) { return torch::mm(h, h).sin(); }, x)
      .sum()
      .backward();
  const auto ours = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  torch::mm(x, x).sin().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), ours));
}

}  // namespace
}  // namespace reprise::testing
