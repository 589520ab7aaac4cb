// Options that would have no effect in a region are errors that name the option.
#include "support/bitwise.h"
#include "support/clone_backend.h"
#include "support/tensors.h"

#include <reprise/reprise.h>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

at::Tensor leaf() {
  return torch::linspace(-1, 1, 64).view({8, 8}).requires_grad_();
}

/// What a region of x.sin().exp() says about its options; empty if it runs.
std::string said(const CheckpointOptions& options) {
  try {
    const auto x = leaf();
    checkpoint(
        options, [](const at::Tensor& h) { return h.sin().exp(); }, x)
        .sum()
        .backward();
  } catch (const CheckpointError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(OptionsWithoutEffect, GeneratorsThatAreNotPreserved) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  EXPECT_EQ(said({.generators = {generator}}), "");
  const auto refused =
      said({.preserve_rng_state = false, .generators = {generator}, .name = "block"});
  EXPECT_TRUE(contains(refused, "region \"block\": generators have no effect")) << refused;
}

TEST(OptionsWithoutEffect, AGeneratorThatIsUndefined) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  EXPECT_TRUE(contains(said({.generators = {generator, at::Generator()}}), "undefined"));
}

TEST(OptionsWithoutEffect, EarlyStopOfAReentrantRegion) {
  EXPECT_EQ(said({.use_reentrant = true}), "");
  EXPECT_TRUE(contains(said({.use_reentrant = true, .early_stop = false}), "never stops early"));
}

/// Large results: 256 KiB.
at::Tensor many(const at::Tensor& x) {
  return x.view({1, 64}).expand({1024, 64}).sin();
}

std::shared_ptr<const Policy> compressing(const std::string& name) {
  return policy::from(
      [name](const OpContext& op) {
        return op.name == name ? Decision::Compress : Decision::Recompute;
      },
      "compressing(" + name + ")");
}

TEST(AllowLossy, IsAnErrorWhereNothingFloatingIsCompressed) {
  const auto fn = [](const at::Tensor& h) {
    const auto y = many(h);
    return torch::where(y > 0.25, y.tanh(), y.exp());
  };
  const auto run = [&](const std::string& compressed) {
    return message_of<CheckpointError>([&] {
      checkpoint(
          {.policy = compressing(compressed), .allow_lossy = true, .name = "block"}, fn, leaf());
    });
  };
  const auto nothing = run("aten::cos");
  EXPECT_TRUE(contains(nothing, "region \"block\": allow_lossy had no effect")) << nothing;
  EXPECT_TRUE(contains(nothing, "compressing(aten::cos)"));
  EXPECT_TRUE(contains(run("aten::gt"), "masks are compressed exactly")) << "only a mask";
  checkpoint({.policy = compressing("aten::tanh"), .allow_lossy = true}, fn, leaf());
}

/// Whether a result is large enough depends on the batch, not on the program.
TEST(AllowLossy, IsAllowedWhereResultsAreTooSmall) {
  checkpoint(
      {.policy = compressing("aten::tanh"), .allow_lossy = true},
      [](const at::Tensor& h) { return h.tanh().exp(); },
      leaf());
}

TEST(AllowLossy, OfAnInnerRegionIsCheckedWheneverItRuns) {
  const auto x = leaf();
  bool is_off = false;
  const auto inner = [&is_off](const at::Tensor& h) {
    return is_off ? many(h).exp() : many(h).tanh().exp();
  };
  const auto outer = [inner](const at::Tensor& h) {
    return checkpoint({.policy = compressing("aten::tanh"), .allow_lossy = true}, inner, h.sin())
        .cos();
  };
  checkpoint(outer, x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  const auto y = checkpoint(outer, x).sum();
  is_off = true;
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { y.backward(); }), "allow_lossy had no effect"));
}

/// With a backend whose device is the CPU, so that its tensors may be offloaded.
class OffloadInputs : public ::testing::Test {
 protected:
  template <class Fn, class... Args>
  static std::string refusal(Fn fn, Args... args) {
    try {
      checkpoint({.offload_inputs = true, .name = "block"}, fn, args...);
    } catch (const CheckpointError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }
  static at::Tensor exp(const at::Tensor& x) { return x.exp(); }

  const BackendScope scope_{std::make_shared<CloneBackend>(1 << 16, /*is_lazy=*/false)};
};

TEST_F(OffloadInputs, OfLeavesAloneAreAnError) {
  const auto refused = refusal(exp, leaf());
  EXPECT_TRUE(contains(refused, "region \"block\": offload_inputs has no effect")) << refused;
  EXPECT_FALSE(refusal([](const at::Tensor& a, const at::Tensor& b) { return a.exp() * b; },
                       leaf().t(),
                       torch::ones({8, 8}))
                   .empty());
}

TEST_F(OffloadInputs, OfARegionWithoutTensorsAreAnError) {
  EXPECT_FALSE(refusal([x = leaf()](double factor) { return x.exp() * factor; }, 2.0).empty());
  EXPECT_FALSE(refusal([x = leaf()](const at::Tensor&) { return x.exp(); }, at::Tensor()).empty());
}

TEST_F(OffloadInputs, ThatTheRegionWritesAreAnError) {
  const auto fn = [x = leaf()](const at::Tensor& scratch) {
    scratch.detach().add_(1);
    return x.exp();
  };
  EXPECT_FALSE(refusal(fn, leaf() * 2).empty());
}

TEST_F(OffloadInputs, OfOneActivationAreEnough) {
  EXPECT_EQ(refusal([](const at::Tensor& a, const at::Tensor& b) { return a.exp() * b; },
                    many(leaf()),
                    torch::ones({64})),
            "");
}

/// Whether an input is large enough depends on the batch, not on the program.
TEST_F(OffloadInputs, ThatAreTooSmallAreCounted) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  EXPECT_EQ(refusal(exp, leaf() * 2), "");
  EXPECT_EQ(checkpoint_stats().total.bytes_not_moved, leaf().nbytes());
  record_checkpoint_stats(false);
}

TEST_F(OffloadInputs, OfARegionThatSavesNothingAreNotNeeded) {
  EXPECT_EQ(refusal([](const at::Tensor& h) { return h + 1; }, leaf()), "");
}

TEST(OffloadInputsOfTheHost, AreAnErrorHoweverSmall) {
  const auto message = message_of<CheckpointError>([] {
    checkpoint(
        {.offload_inputs = true}, [](const at::Tensor& h) { return h.exp(); }, leaf() * 2);
  });
  EXPECT_TRUE(contains(message, "in host memory already")) << message;
}

}  // namespace
}  // namespace reprise::testing
