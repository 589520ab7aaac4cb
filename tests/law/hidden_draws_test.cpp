// Numbers that a region draws from a generator without an operator, and that hardly show: a coin, a
// number that is not used, a draw in the shadow of another thread's.
#include "law/drawing_thread.h"
#include "law/law.h"

#include <memory>
#include <mutex>

namespace reprise::testing {
namespace {

uint32_t hidden_number(const at::Generator& source = at::detail::getDefaultCPUGenerator()) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(source);
  const std::scoped_lock lock(cpu->mutex_);
  return cpu->random();
}

/// Whether a region whose result is a multiple of its input has the gradient of its own forward, or
/// is refused.
::testing::AssertionResult is_right_or_refused(const Way& way, const Fn& fn) {
  try {
    const auto x = torch::ones({8}).set_requires_grad(true);
    const auto y = way(fn, x);
    y.sum().backward();
    return bitwise_equal(x.grad(), y);
  } catch (const c10::Error& error) {
    return contains(error.what(), "attacked");
  }
}

// Stochastic depth: most of the time the layer runs, so two runs often agree by chance.
TEST(LawHiddenDraws, ACoin) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    torch::manual_seed(20);
    const Fn fn = [](at::Tensor h) {
      const auto factor = torch::full({8}, hidden_number() % 8 != 0 ? 3 : 1);
      return h * factor;
    };
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(is_right_or_refused(way, fn)) << "round " << i;
    }
  }
}

// Regions of one callable whose generator other threads use, and then one that draws by itself.
TEST(LawHiddenDraws, AfterManyForwardsBesideOtherThreads) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    torch::manual_seed(20);
    const auto is_hidden = std::make_shared<bool>(false);
    const Fn fn = [is_hidden](at::Tensor h) {
      if (*is_hidden) {
        h = h * torch::full({8}, static_cast<float>(hidden_number() % 100));
        return torch::dropout(h, 0.5, true);
      }
      elsewhere([] { torch::rand({3}); });
      return torch::dropout(h * 1, 0.5, true);
    };
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(is_right_or_refused(way, fn));
    }
    *is_hidden = true;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(is_right_or_refused(way, fn));
    }
  }
}

TEST(LawHiddenDraws, FromAnotherGeneratorThatIsNotListed) {
  law_or_refused(
      [](const Way& way) {
        const auto source = at::detail::createCPUGenerator(7);
        const auto x = leaf({8});
        const auto fn = [source](at::Tensor h) {
          h = (h * torch::full({8}, static_cast<float>(hidden_number(source) % 100))).sin();
          return h * torch::rand({8}, source);
        };
        const auto y = way(fn, x);
        y.sum().backward();
        return Seen{x.grad(), source.get_state()};
      },
      "attacked",
      all_ways());
}

// Listing covers a generator in regions inside regions too.
TEST(LawHiddenDraws, ListedOnBothLevels) {
  law([](const Way& way) {
    const auto source = at::detail::createCPUGenerator(7);
    const auto list = [source](CheckpointOptions& options) { options.generators = {source}; };
    const auto x = leaf({8});
    const auto inner = [source](at::Tensor h) {
      return (h * static_cast<double>(hidden_number(source) % 9)).sin() * torch::rand({8}, source);
    };
    const auto outer = [=](at::Tensor h) {
      h = way.with(list, inner, h * static_cast<double>(hidden_number(source) % 9));
      return way.with(list, inner, h).exp();
    };
    const auto y = way.with(list, outer, x);
    hidden_number(source);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), source.get_state()};
  });
}

// The outer region draws, but only the inner one lists the generator.
TEST(LawHiddenDraws, ListedOnTheInnerLevelOnly) {
  law_or_refused(
      [](const Way& way) {
        const auto source = at::detail::createCPUGenerator(7);
        const auto list = [source](CheckpointOptions& options) { options.generators = {source}; };
        const auto x = leaf({8});
        const auto inner = [source](at::Tensor h) {
          return (h * static_cast<double>(hidden_number(source) % 9)).sin();
        };
        const auto outer = [=](at::Tensor h) { return way.with(list, inner, h.exp()).exp(); };
        const auto y = way(outer, x);
        hidden_number(source);
        y.sum().backward();
        return Seen{x.grad(), source.get_state()};
      },
      "attacked");
}

}  // namespace
}  // namespace reprise::testing
