// Buffers that regions of several levels, or of several kinds, share.
#include "law/buffers.h"
#include "law/law.h"

namespace reprise::testing {
namespace {

TEST(LawNestedAliases, ThreeLevels) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto middle = [way](at::Tensor value, at::Tensor sum) {
        value = way(read_and_bump, value, sum);
        bump(sum, value.sin());
        return way(read_and_bump, value, sum.view({2, 2}).view({4})).exp();
      };
      for (int i = 0; i < 2; ++i) {
        h = way(middle, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawNestedAliases, ThreeLevelsWithACaptureInTheMiddle) {
  law([](const Way& way) {
    return gradient_through(way, [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      const auto middle = [way, buffer](at::Tensor value) {
        value = way(read_and_bump, value, buffer);
        const auto inner = [buffer](at::Tensor v) { return read_and_bump(v, buffer); };
        return way(inner, value).exp();
      };
      for (int i = 0; i < 2; ++i) {
        h = way(middle, h);
      }
      return h.exp() * buffer;
    });
  });
}

/// One level runs as the way says, the other with a policy.
void law_with_policy_on(bool outer_has_it) {
  law([outer_has_it](const Way& way) {
    const auto with_policy = [](CheckpointOptions& options) { options.policy = keep_some(); };
    const auto as_it_is = [](CheckpointOptions&) {};
    const auto outer = [=](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = outer_has_it ? way.with(as_it_is, read_and_bump, h, buffer)
                         : way.with(with_policy, read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    };
    const auto x = leaf({4});
    (outer_has_it ? way.with(with_policy, outer, x) : way.with(as_it_is, outer, x))
        .sum()
        .backward();
    return Seen{x.grad()};
  });
}

TEST(LawNestedAliases, APolicyOnTheOuterRegion) {
  law_with_policy_on(true);
}

TEST(LawNestedAliases, APolicyOnTheInnerRegions) {
  law_with_policy_on(false);
}

TEST(LawNestedAliases, ReentrantRegionsInsideADefaultOne) {
  law([](const Way& way) {
    const auto make_reentrant = [](CheckpointOptions& options) {
      options = {.use_reentrant = true, .name = "attacked"};
    };
    return gradient_through(way, [=](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way.with(make_reentrant, read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    });
  });
}

TEST(LawNestedAliases, DefaultRegionsInsideAReentrantOne) {
  law([](const Way& way) {
    const auto make_reentrant = [](CheckpointOptions& options) {
      options = {.use_reentrant = true, .name = "attacked"};
    };
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    };
    way.with(make_reentrant, outer, x).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawNestedAliases, BackwardRunsTwice) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto buffer = torch::zeros({2, 4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer[i % 2]);
      }
      return h.exp() * buffer.sum(0);
    };
    const auto y = way(outer, way(outer, x));
    y.sum().backward({}, /*retain_graph=*/true);
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return Seen{x.grad(), slope};
  });
}

}  // namespace
}  // namespace reprise::testing
