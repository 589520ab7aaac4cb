// Results of reentrant regions that share memory with something else, changed in place afterwards:
// autograd could not follow, so LibTorch refuses. Results of their own may be changed.
#include "law/law.h"

#include <memory>

namespace reprise::testing {
namespace {

/// What LibTorch says of a view that was made in a custom function.
void refused_afterwards(const Program& program) {
  law_or_refused(program, "in place");
  refused(program, "modified inplace", {reentrant()});
}

TEST(LawReentrantOutputs, AnInputThatIsReturned) {
  refused_afterwards([](const Way& way) {
    const auto x = leaf({4});
    const auto h = x * 2;
    const auto y = way([](at::Tensor in) { return in; }, h);
    y.fill_(1);
    h.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawReentrantOutputs, AViewOfAnInput) {
  refused_afterwards([](const Way& way) {
    const auto x = leaf({2, 4});
    const auto h = x * 2;
    const auto y = way([](at::Tensor in) { return in.t().narrow(0, 0, 2); }, h);
    y.add_(x.narrow(1, 0, 2).t());
    (h * 2).sum().backward();
    return Seen{x.grad(), h};
  });
}

TEST(LawReentrantOutputs, ALeafInputWithoutGradient) {
  refused_afterwards([](const Way& way) {
    const auto x = leaf({4});
    const auto buffer = torch::ones({4});
    const auto fn = [](at::Tensor in, at::Tensor other) {
      return std::vector<at::Tensor>{in.exp(), other};
    };
    const auto y = way(fn, x, buffer);
    y[1].mul_(x);
    (y[0] * buffer).sum().backward();
    return Seen{x.grad(), buffer};
  });
}

TEST(LawReentrantOutputs, EachOther) {
  refused_afterwards([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h = h * 2;
      return std::vector<at::Tensor>{h, h.view({2, 2})};
    };
    const auto y = way(fn, x);
    y[0].add_(x);
    (y[0].sum() + y[1].square().sum()).backward();
    return Seen{x.grad(), y[1]};
  });
}

TEST(LawReentrantOutputs, ACapturedBuffer) {
  for (const bool is_view : {false, true}) {
    refused_afterwards([is_view](const Way& way) {
      const auto x = leaf({4});
      const auto buffer = torch::ones({4});
      const auto fn = [=](at::Tensor h) {
        return std::vector<at::Tensor>{h.exp(), is_view ? buffer.view({4}) : buffer};
      };
      const auto y = way(fn, x);
      y[1].mul_(x);
      (y[0] * buffer).sum().backward();
      return Seen{x.grad(), buffer};
    });
  }
}

TEST(LawReentrantOutputs, ATensorThatTheCallableStores) {
  refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto stored = std::make_shared<at::Tensor>();
        const auto fn = [stored](at::Tensor h) { return *stored = h.exp(); };
        const auto y = way(fn, x);
        y.mul_(x);
        (y + *stored).sum().backward();
        return Seen{x.grad()};
      },
      "modified inplace",
      {reentrant()});
}

TEST(LawReentrantOutputs, TheOtherNameIsChanged) {
  const auto program = [](const Way& way) {
    const auto x = leaf({4});
    const auto h = x * 2;
    const auto y = way([](at::Tensor in) { return in.view({2, 2}); }, h);
    h.mul_(x);
    y.sum().backward();
    return Seen{x.grad()};
  };
  refused(program, "modified inplace", {reentrant()});
}

TEST(LawReentrantOutputs, OfTheirOwnMayBeChanged) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 4});
        const auto fn = [](at::Tensor h) { return h * 2; };
        const auto as_view = [](at::Tensor h) { return (h.exp() * 2).t().narrow(0, 0, 4); };
        const auto detached = [](at::Tensor h) { return h.exp().detach() + h.sum(); };
        const auto several = [](at::Tensor h) {
          return std::vector<at::Tensor>{(h * 2).t(), h.sin().unsqueeze(0), h.argmax()};
        };
        auto y = way(fn, x).mul_(2);
        auto z = way(as_view, y).add_(x.t());
        auto u = way(detached, z).mul_(3);
        auto more = way(several, x);
        more[0].mul_(2);
        more[1].add_(x);
        (u.sum() + more[0].sum() + more[1].square().sum()).backward();
        return Seen{x.grad(), y, z, u};
      },
      {ways().front(), reentrant()});
}

TEST(LawReentrantOutputs, ThatShareMemoryAreReadLikeOthers) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 4});
        const auto fn = [](at::Tensor h) {
          auto y = h.exp();
          return std::vector<at::Tensor>{h.t(), y, y.t()};
        };
        const auto y = way(fn, x.sin());
        y[0].register_hook([](const at::Tensor& grad) { return grad * 2; });
        const auto z = way(fn, y[0].sin());
        (z[0].sum() + z[1].square().sum() + (y[1].t() * y[2]).sum() + z[2].sum()).backward();
        return Seen{x.grad()};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
