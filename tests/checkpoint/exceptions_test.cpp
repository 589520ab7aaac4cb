// Exceptions of user code, in forward and in recompute: they keep or get a type that can be caught,
// name the region, and leave no state behind.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace reprise::testing {
namespace {

/// Not derived from std::exception.
struct CustomFailure {
  int code;
};

struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Throws { UserError, TorchError, Int, Custom, OutOfMemory };

void throw_one(Throws what) {
  switch (what) {
    case Throws::UserError:
      throw UserError("user error");
    case Throws::TorchError:
      TORCH_CHECK(false, "torch error");
    case Throws::Int:
      throw 42;
    case Throws::Custom:
      throw CustomFailure{7};
    case Throws::OutOfMemory:
      throw std::bad_alloc();
  }
}

constexpr std::array kAll{
    Throws::UserError, Throws::TorchError, Throws::Int, Throws::Custom, Throws::OutOfMemory};

/// A training step that must work whatever happened before; compares with plain autograd.
void expect_next_step_works() {
  EXPECT_TRUE(at::GradMode::is_enabled());
  const auto fn = [](at::Tensor h) { return torch::dropout(h.exp() * h.sin(), 0.5, true); };
  const auto ours = ramp_leaf({4}), plain = ramp_leaf({4});
  torch::manual_seed(1);
  checkpoint({.policy = policy::save_ops({"aten::exp"})}, fn, ours).sum().backward();
  torch::manual_seed(1);
  fn(plain).sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
  // Nothing of the failed region intercepts what is saved now.
  const auto kept = ramp_leaf({4});
  const auto y = kept.exp();
  EXPECT_TRUE(bitwise_equal(y, torch::autograd::grad({y.sum()}, {kept})[0]));
}

/// Runs `fn` and says which kind of exception came out.
std::string caught(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const UserError&) {
    return "UserError";
  } catch (const CheckpointError&) {
    return "CheckpointError";
  } catch (const c10::Error&) {
    return "c10::Error";
  } catch (const std::bad_alloc&) {
    return "std::bad_alloc";
  } catch (int value) {
    return "int " + std::to_string(value);
  } catch (const CustomFailure& failure) {
    return "CustomFailure " + std::to_string(failure.code);
  }
  return "nothing";
}

TEST(Exceptions, KeepTheirTypeInForward) {
  const std::array expected{
      "UserError", "c10::Error", "int 42", "CustomFailure 7", "std::bad_alloc"};
  for (const bool reentrant : {false, true}) {
    for (const auto what : kAll) {
      const auto type = caught([&] {
        checkpoint(
            {.use_reentrant = reentrant},
            [what](at::Tensor h) {
              const auto y = h.exp();
              throw_one(what);
              return y;
            },
            ramp_leaf({4}));
      });
      EXPECT_EQ(type, expected[static_cast<size_t>(what)]);
      expect_next_step_works();
    }
  }
}

TEST(Exceptions, OfLibTorchNameTheRegionInForward) {
  for (const bool reentrant : {false, true}) {
    const auto message = message_of<c10::Error>([&] {
      checkpoint(
          {.use_reentrant = reentrant, .name = "matrix"},
          [](at::Tensor h) { return torch::mm(h, h); },
          ramp_leaf({4}));
    });
    EXPECT_TRUE(contains(message, "while running region \"matrix\""));
    EXPECT_TRUE(contains(message, "must be a matrix"));
  }
}

/// A region that throws in its recompute.
at::Tensor failing_region(const CheckpointOptions& options, Throws what, const at::Tensor& x) {
  auto runs = std::make_shared<int>(0);
  return checkpoint(
      options,
      [what, runs](at::Tensor h) {
        const auto y = h.exp();
        if (++*runs > 1) {
          throw_one(what);
        }
        return y.sin();
      },
      x);
}

TEST(Exceptions, InRecomputeNameTheRegionAndCanBeCaughtAsStdException) {
  for (const bool reentrant : {false, true}) {
    for (const auto what : kAll) {
      const auto x = ramp_leaf({4});
      const CheckpointOptions options{.use_reentrant = reentrant, .name = "thrower"};
      const auto y = failing_region(options, what, x).sum();
      const auto message = message_of<c10::Error>([&] { y.backward(); });
      EXPECT_TRUE(contains(message, "region \"thrower\"")) << static_cast<int>(what);
      EXPECT_FALSE(x.grad().defined());
      expect_next_step_works();
    }
  }
}

TEST(Exceptions, InRecomputeSayWhatTheyWere) {
  const auto text = [](Throws what) {
    const auto y = failing_region({}, what, ramp_leaf({4})).sum();
    return message_of<c10::Error>([&] { y.backward(); });
  };
  EXPECT_TRUE(contains(text(Throws::UserError), "user error"));
  EXPECT_TRUE(contains(text(Throws::TorchError), "torch error"));
  EXPECT_TRUE(contains(text(Throws::Int), "type int"));
  EXPECT_TRUE(contains(text(Throws::Custom), "CustomFailure"));
  EXPECT_TRUE(contains(text(Throws::UserError),
                       "failing_region"));  // an unnamed region goes by its callable
}

TEST(Exceptions, TheOriginalIsNested) {
  const auto nested_in = [](Throws what) {
    const auto y = failing_region({}, what, ramp_leaf({4})).sum();
    return caught([&] {
      try {
        y.backward();
      } catch (const CheckpointError& error) {
        std::rethrow_if_nested(error);
      }
    });
  };
  EXPECT_EQ(nested_in(Throws::UserError), "UserError");
  EXPECT_EQ(nested_in(Throws::Int), "int 42");
  EXPECT_EQ(nested_in(Throws::Custom), "CustomFailure 7");
  EXPECT_EQ(nested_in(Throws::OutOfMemory), "std::bad_alloc");
}

TEST(Exceptions, LeaveRandomAutocastAndGradStateOfTheCallerAlone) {
  torch::manual_seed(9);
  torch::rand({3});
  const auto x = ramp_leaf({4});
  at::Tensor y;
  {
    const AutocastScope autocast(c10::kCPU);
    auto runs = std::make_shared<int>(0);
    y = checkpoint(
        [runs](at::Tensor h) {
          h = torch::dropout(h.exp(), 0.5, true).sin();
          if (++*runs > 1) {
            throw 1;
          }
          return h;
        },
        x);
  }
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  torch::NoGradGuard no_grad;
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}), std::exception);
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_TRUE(bitwise_equal(before, generator.get_state()));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
}

TEST(Exceptions, AfterAFailedBackwardTheRegionCanBeTriedAgain) {
  const auto x = ramp_leaf({4}), plain = ramp_leaf({4});
  auto fails = std::make_shared<bool>(false);
  const auto y = checkpoint(
      [fails](at::Tensor h) {
        h = h.exp();
        if (*fails) {
          throw CustomFailure{1};
        }
        return h.sin();
      },
      x);
  *fails = true;
  EXPECT_THROW(y.sum().backward({}, /*retain_graph=*/true), CheckpointError);
  *fails = false;
  y.sum().backward();
  plain.exp().sin().sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
}

TEST(Exceptions, OfAnInnerRegionNameIt) {
  const auto x = ramp_leaf({4});
  const auto outer = [](at::Tensor h) {
    return failing_region({.name = "inner"}, Throws::Int, h.sin());
  };
  const auto y = checkpoint({.name = "outer"}, outer, x).sum();
  const auto message = message_of<CheckpointError>([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "inner"));
  expect_next_step_works();
}

TEST(Exceptions, CaughtInsideTheRegionAreItsOwnBusiness) {
  const auto run = [](bool checkpointed) {
    const auto x = ramp_leaf({4});
    const auto fn = [](at::Tensor h) {
      try {
        const auto unused = h.exp();
        throw UserError("handled");
      } catch (const UserError&) {
        h = h.sin();
      }
      return h.exp();
    };
    (checkpointed ? checkpoint(fn, x) : fn(x)).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

TEST(Exceptions, OnTheEnginesDeviceThreadsDoNotEndTheProcess) {
  REPRISE_REQUIRE_CUDA();
  for (const auto what : kAll) {
    const auto x = ramp_leaf({4}, c10::kCUDA);
    const auto y = failing_region({.name = "on device"}, what, x).sum();
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { y.backward(); }), "region \"on device\""));
  }
  expect_next_step_works();
}

}  // namespace
}  // namespace reprise::testing
