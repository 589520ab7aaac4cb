// Regions inside regions that share tensors.
#include "law/law.h"

#include "support/tensors.h"

namespace reprise::testing {
namespace {

TEST(LawNestedState, ABufferOfTheOuterRegionIsWrittenByInnerRegions) {
  law([](const Way& way) {
    const auto x = torch::linspace(-1, 1, 4).set_requires_grad(true);
    const auto outer = [way](at::Tensor h) {
      const auto total = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        const auto inner = [](at::Tensor value, at::Tensor sum) {
          const auto next = (value * (sum + 1)).tanh();
          torch::NoGradGuard no_grad;
          sum.add_(next.detach());
          return next;
        };
        h = way(inner, h, total);
      }
      return h * total;
    };
    way(outer, x).sum().backward();
    return std::vector{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
