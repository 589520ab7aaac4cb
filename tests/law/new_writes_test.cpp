// Writes that a recompute would do and forward did not, because the program branches on what has
// changed in between: a gradient that exists now, a counter. Doing them would change the program's
// tensors in the middle of backward. They are refused before they happen.
#include "law/law.h"

#include <memory>

namespace reprise::testing {
namespace {

/// Steps once there is a gradient. In forward there is none.
void step(const at::Tensor& parameter) {
  const torch::NoGradGuard no_grad;
  if (parameter.grad().defined()) {
    parameter.sub_(parameter.grad() * 0.1);
  }
}

/// `other` gets a gradient before the region is recomputed.
template <class Work>
Program with_a_late_step(Work work) {
  return [work](const Way& way) {
    const auto x = leaf({4}), other = leaf({4});
    const auto y = way([=](at::Tensor h) { return work(h, other); }, x);
    (other * 2).sum().backward();
    y.sum().backward();
    return Seen{x.grad(), other.grad(), other.detach()};
  };
}

std::string cause() {
  return "that it did not change in forward";
}

TEST(LawNewWrites, ToAParameterThatTheRegionDoesNotRead) {
  refused(with_a_late_step([](const at::Tensor& h, const at::Tensor& other) {
            step(other);
            return h.exp().sin();
          }),
          cause());
}

TEST(LawNewWrites, ToAParameterThatTheRegionReads) {
  refused(with_a_late_step([](const at::Tensor& h, const at::Tensor& other) {
            step(other);
            return (h * other).exp().sin();
          }),
          cause());
}

TEST(LawNewWrites, ToABufferInASecondRun) {
  refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto buffer = torch::zeros({4});
        const auto runs = std::make_shared<int>(0);
        const auto fn = [=](at::Tensor h) {
          if (++*runs > 1) {
            buffer.add_(1);
          }
          return h.exp().sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), buffer};
      },
      cause());
}

// Beside writes of other sizes, to tensors of the region's own and to the program's.
TEST(LawNewWrites, BesideOthers) {
  refused(with_a_late_step([](const at::Tensor& h, const at::Tensor& other) {
            auto own = torch::zeros({3});
            own.add_(1);
            step(other);
            return h.exp().sin() * own.sum();
          }),
          cause());
}

TEST(LawNewWrites, InANestedRegion) {
  refused(
      [](const Way& way) {
        const auto x = leaf({4}), other = leaf({4});
        const auto inner = [other](at::Tensor h) {
          step(other);
          return h.exp().sin();
        };
        const auto y = way([&](at::Tensor h) { return way(inner, h.sin()).exp(); }, x);
        (y.sum() + (other * 2).sum()).backward();
        return Seen{x.grad(), other.grad(), other.detach()};
      },
      cause());
}

TEST(LawNewWrites, InAReentrantRegion) {
  refused(with_a_late_step([](const at::Tensor& h, const at::Tensor& other) {
            step(other);
            return h.exp().sin();
          }),
          cause(),
          {reentrant()});
}

// Tensors that the region makes, of any size, may be written as often as in forward.
TEST(LawNewWrites, ToTensorsOfTheRegionsOwnAreNone) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto buffer = torch::zeros({4});
        const auto fn = [buffer](at::Tensor h) {
          std::vector<at::Tensor> made;
          for (int i = 1; i < 40; ++i) {
            const torch::NoGradGuard no_grad;
            auto one = h.detach().exp();
            one.add_(i);
            one.mul_(2);
            made.push_back(one.clone().resize_({4}).sub_(torch::full({4}, i).add_(1)));
          }
          buffer.add_(1);
          h = h.exp() * torch::stack(made).sum(0);
          return h.sin() + torch::zeros({4}).copy_(h);
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      all_ways());
}

// What a first run makes and keeps, later ones need not make again.
TEST(LawNewWrites, LessThanInForwardIsNone) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto table = std::make_shared<at::Tensor>();
    const auto fn = [table](at::Tensor h) {
      if (!table->defined()) {
        *table = torch::zeros({4});
        table->add_(torch::arange(4));
      }
      auto own = torch::ones({4});
      own.mul_(2);
      return (h.exp() * *table).sin() * own;
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
