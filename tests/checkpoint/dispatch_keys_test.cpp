// The keys through which operators are observed belong to regions alone: Note [Two dispatch keys],
// Note [Fake tensors]. What other libraries do to them is in other_libraries/.
#include "checkpoint/loaded_torch.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/torch_versions.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>
#include <torch/torch.h>

namespace reprise::testing {
namespace {

CheckpointOptions keeping() {
  return {.policy = policy::save_matmuls(), .name = "keeping"};
}

at::Tensor weight() {
  return torch::linspace(-1, 1, 16).reshape({4, 4}).set_requires_grad(true);
}

/// Gradient of a small region.
at::Tensor trained(const CheckpointOptions& options) {
  auto w = weight();
  checkpoint(
      options, [](at::Tensor h) { return torch::mm(h, h).tanh(); }, w)
      .sum()
      .backward();
  return w.grad();
}

TEST(DispatchKeys, ThatOfTheRecorderHasNoKernelOfLibTorch) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    EXPECT_FALSE(op && op->hasKernelForDispatchKey(detail::kRecordKey)) << name;
  }
}

TEST(DispatchKeys, WhereOthersIncludeItOperatorsFailAsWithoutReprise) {
  trained(keeping());
  const c10::impl::IncludeDispatchKeyGuard others(detail::kRecordKey);
  EXPECT_TRUE(contains(message_of<c10::NotImplementedError>([] { at::ones({2}); }),
                       "Could not run 'aten::ones' with arguments from the 'Fake' backend"));
}

TEST(DispatchKeys, MetaTensorsAreRealTensors) {
  auto w = torch::ones({4, 4}, at::kMeta).set_requires_grad(true);
  checkpoint(
      keeping(), [](at::Tensor h) { return torch::mm(h, h).tanh(); }, w)
      .sum()
      .backward();
  EXPECT_EQ(w.grad().sizes(), w.sizes());
}

#if REPRISE_FAKE_TENSORS

at::Tensor expected() {
  auto w = weight();
  torch::mm(w, w).tanh().sum().backward();
  return w.grad();
}

at::Tensor fake() {
  auto tensor = torch::ones({4, 4}, at::kMeta);
  tensor.unsafeGetTensorImpl()->set_fake_device(at::kCPU);
  return tensor;
}

std::vector<CheckpointOptions> variants() {
  return {{.name = "default"}, keeping(), {.use_reentrant = true, .name = "reentrant"}};
}

TEST(FakeTensors, BesideRegionsFailAsWithoutReprise) {
  const auto f = fake();
  for (const auto& options : variants()) {
    EXPECT_TRUE(bitwise_equal(trained(options), expected()));
    EXPECT_THROW(f + 1, c10::NotImplementedError);
    EXPECT_THROW(at::cat({f, f}), c10::NotImplementedError);
  }
}

TEST(FakeTensors, AreRefusedAsInputs) {
  for (const auto& options : variants()) {
    EXPECT_TRUE(contains(
        message_of<CheckpointError>([&] {
          checkpoint(
              options, [](at::Tensor h, at::Tensor) { return torch::mm(h, h); }, weight(), fake());
        }),
        "input tensor #1 is a fake tensor"));
  }
}

TEST(FakeTensors, AreRefusedAsCaptures) {
  const auto f = fake();
  for (const auto& options : variants()) {
    SCOPED_TRACE(options.name);
    const auto run = [&options](auto fn) {
      return message_of<c10::Error>([&] { checkpoint(options, fn, weight()); });
    };
    EXPECT_TRUE(contains(run([f](at::Tensor h) { return torch::mm(h, h) * f; }), options.name));
    EXPECT_TRUE(contains(run([f](at::Tensor h) { return torch::mm(h, h) + f; }), options.name));
    EXPECT_TRUE(contains(run([f](at::Tensor h) {
                           f.add_(1);
                           return torch::mm(h, h);
                         }),
                         "a tensor that it writes is a fake tensor"));
    EXPECT_TRUE(bitwise_equal(trained(options), expected())) << "the next step works";
  }
}

TEST(FakeTensors, AModeThatMakesThemIsRefused) {
  using Mode = c10::impl::FakeTensorModeTLS;
  for (const auto& options : variants()) {
    auto w = weight();
    Mode::create_state(std::make_shared<c10::FakeTensorMode>(nullptr, nullptr));
    Mode::activate();
    EXPECT_THROW(at::ones({2}), c10::NotImplementedError);
    EXPECT_TRUE(contains(message_of<CheckpointError>([&] {
                           checkpoint(
                               options, [](at::Tensor h) { return torch::mm(h, h); }, w);
                         }),
                         "makes fake tensors"));
    Mode::reset_state();
    EXPECT_TRUE(bitwise_equal(trained(options), expected()));
  }
}

TEST(FakeTensors, AModeThatBeginsInsideARegionStopsIt) {
  using Mode = c10::impl::FakeTensorModeTLS;
  for (const auto& options : variants()) {
    EXPECT_THROW(checkpoint(
                     options,
                     [](at::Tensor h) {
                       Mode::create_state(std::make_shared<c10::FakeTensorMode>(nullptr, nullptr));
                       Mode::activate();
                       return torch::mm(h, h);
                     },
                     weight()),
                 c10::NotImplementedError);
    Mode::reset_state();
    EXPECT_TRUE(bitwise_equal(trained(options), expected()));
  }
}

#endif

TEST(LoadedTorch, IsOneAndTheOneThatWasBuiltWith) {
  const auto paths = detail::loaded_torches();
  ASSERT_EQ(paths.size(), 1);
  EXPECT_TRUE(contains(paths[0], "libtorch_cpu"));
  EXPECT_NO_THROW(detail::require_one_torch());
}

TEST(LoadedTorch, PatchesFitOtherVersionsDoNot) {
  const auto version = [](uint64_t minor, uint64_t patch) {
    return uint64_t{2} << 56U | minor << 48U | patch << 40U;
  };
  EXPECT_EQ(detail::torch_mismatch(version(12, 0), version(12, 1), {"a"}), "");
  EXPECT_TRUE(
      contains(detail::torch_mismatch(version(15, 0), version(12, 1), {"/x/libtorch_cpu.so"}),
               "built with LibTorch 2.15.0, but the process has loaded LibTorch 2.12.1 "
               "(/x/libtorch_cpu.so)"));
  EXPECT_TRUE(contains(detail::torch_mismatch(version(15, 0), version(15, 0), {"/x/a", "/y/b"}),
                       "2 LibTorch libraries (/x/a, /y/b)"));
}

}  // namespace
}  // namespace reprise::testing
