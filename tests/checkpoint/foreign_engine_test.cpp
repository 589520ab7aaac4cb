// Regions work only while saved tensors come to our engine; any other engine is refused by name.
#include "support/bitwise.h"

#include <reprise/checkpoint.h>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

namespace reprise::testing {

struct ForeignEngine final : torch::autograd::Engine {
  ~ForeignEngine() override { stop(); }
};

torch::autograd::Engine& foreign_engine() {
  static ForeignEngine engine;
  return engine;
}

torch::autograd::Engine* ours = nullptr;
torch::autograd::Engine& our_engine() {
  return *ours;
}

class ForeignEngineTest : public ::testing::Test {
 protected:
  void SetUp() override { ours = &torch::autograd::Engine::get_default_engine(); }
  void TearDown() override { torch::autograd::set_default_engine_stub(&our_engine); }

  at::Tensor x_ = torch::randn({3}).set_requires_grad(true);
};

TEST_F(ForeignEngineTest, OursIsInstalledWithoutAnyCall) {
  EXPECT_NE(ours, &torch::autograd::Engine::get_base_engine());
}

TEST_F(ForeignEngineTest, AnotherEngineIsRefusedByName) {
  torch::autograd::set_default_engine_stub(&foreign_engine);
  for (const bool reentrant : {false, true}) {
    const auto message = message_of<CheckpointError>([&] {
      checkpoint(
          {.use_reentrant = reentrant}, [](at::Tensor h) { return h.exp(); }, x_);
    });
    EXPECT_TRUE(contains(message, "ForeignEngine"));
    EXPECT_TRUE(contains(message, "no effect"));
  }
}

TEST_F(ForeignEngineTest, RegionsWorkAgainWhenOursIsBack) {
  torch::autograd::set_default_engine_stub(&foreign_engine);
  EXPECT_THROW(checkpoint([](at::Tensor h) { return h.exp(); }, x_), CheckpointError);
  torch::autograd::set_default_engine_stub(&our_engine);
  checkpoint([](at::Tensor h) { return h.exp(); }, x_).sum().backward();
  EXPECT_TRUE(bitwise_equal(x_.grad(), x_.detach().exp()));
}

// Without grad a region is a plain call, whoever's engine it is.
TEST_F(ForeignEngineTest, NoGradCallsDoNotAsk) {
  torch::autograd::set_default_engine_stub(&foreign_engine);
  torch::NoGradGuard no_grad;
  EXPECT_TRUE(bitwise_equal(checkpoint([](at::Tensor h) { return h.exp(); }, x_), x_.exp()));
}

}  // namespace reprise::testing
