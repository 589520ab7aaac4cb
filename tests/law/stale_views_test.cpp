// Views whose base is written through another name, in regions and before them, and hooks on them.
// LibTorch builds the history of such a view anew when it is asked for it, and hooks that were
// registered before stay where they were: a region must not ask in the program's place.
#include "law/law.h"

namespace reprise::testing {
namespace {

/// Counts its calls.
struct Counted {
  at::Tensor calls = torch::zeros({}, torch::kLong);
  void on(const at::Tensor& tensor) const {
    tensor.register_hook([counted = calls](const at::Tensor&) { counted.add_(1); });
  }
};

/// A row of a leaf, that was written without grad after a hook was registered on it.
struct StaleRow {
  at::Tensor base = leaf({2, 4});
  at::Tensor row = base[0];
  Counted before;
  StaleRow() {
    write();
    before.on(row);
    write();
  }
  void write() const {
    const torch::NoGradGuard no_grad;
    row.mul_(2);
  }
};

TEST(LawStaleViews, AHookOnTheInputGoesWhereItGoesWithoutRegions) {
  law([](const Way& way) {
    const StaleRow stale;
    const Counted inside;
    const auto fn = [=](at::Tensor h) {
      inside.on(h);
      return std::vector<at::Tensor>{};
    };
    way(fn, stale.row);
    stale.row.sum().backward();
    return Seen{stale.base.grad(), stale.before.calls, inside.calls};
  });
}

TEST(LawStaleViews, AHookOnTheInputThatIsUsedToo) {
  law([](const Way& way) {
    const StaleRow stale;
    const Counted first, second, third;
    const auto fn = [=](at::Tensor h) {
      first.on(h);
      auto y = h.exp().sin();
      second.on(h);
      return y.exp();
    };
    const auto y = way(fn, stale.row);
    third.on(stale.row);
    y.sum().backward();
    return Seen{stale.base.grad(), stale.before.calls, first.calls, second.calls, third.calls};
  });
}

TEST(LawStaleViews, AHookOnACapturedView) {
  law([](const Way& way) {
    const StaleRow stale;
    const Counted first, second, third;
    const auto x = leaf({4});
    const auto fn = [=](at::Tensor h) {
      first.on(stale.row);
      h = (h.exp() * stale.row).sin();
      second.on(stale.row);
      return h.exp();
    };
    const auto y = way(fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    third.on(stale.row);
    (y.sum() + stale.row.sum()).backward();
    return Seen{
        stale.base.grad(), x.grad(), stale.before.calls, first.calls, second.calls, third.calls};
  });
}

TEST(LawStaleViews, InAReentrantRegionAHookIsRefusedOrGoesWhereItGoesWithoutRegions) {
  law_or_refused(
      [](const Way& way) {
        const StaleRow stale;
        const Counted first, second;
        const auto fn = [=](at::Tensor h) {
          first.on(h);
          auto y = h.exp().sin();
          second.on(h);
          return y;
        };
        way(fn, stale.row).sum().backward();
        return Seen{stale.base.grad(), stale.before.calls, first.calls, second.calls};
      },
      "attacked",
      {reentrant()});
}

TEST(LawStaleViews, AnArgumentGetsItsHistoryThroughAnotherName) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto buffer = torch::ones({2, 4});
    const Counted counted;
    const auto fn = [=](at::Tensor h, at::Tensor argument) {
      buffer.select(0, 1).copy_(weight * h);
      counted.on(argument);
      return (argument.exp() * h).sin();
    };
    way(fn, x.exp(), buffer).sum().backward();
    return Seen{x.grad(), weight.grad(), buffer, counted.calls};
  });
}

TEST(LawStaleViews, AnArgumentGetsItsHistoryInANestedRegion) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto buffer = torch::ones({2, 4});
    const Counted counted;
    const auto fn = [=](at::Tensor h, at::Tensor argument) {
      way([=] {
        buffer.select(0, 1).copy_(weight);
        counted.on(argument);
        return std::vector<at::Tensor>{};
      });
      return (argument.exp() * h).sin();
    };
    way(fn, x.exp(), buffer).sum().backward();
    return Seen{x.grad(), weight.grad(), buffer, counted.calls};
  });
}

TEST(LawStaleViews, AViewAsArgumentGetsItsHistoryThroughItsBase) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto buffer = torch::ones({2, 4});
    const Counted counted;
    const auto fn = [=](at::Tensor h, at::Tensor row) {
      const auto before = (row + h).sin();  // without a history of the row
      buffer.copy_((weight * h).expand({2, 4}));
      counted.on(row);
      return (row.exp() * before).sin();
    };
    way(fn, x.exp(), buffer[0]).sum().backward();
    return Seen{x.grad(), weight.grad(), buffer, counted.calls};
  });
}

TEST(LawStaleViews, ACapturedViewGetsItsHistoryThroughItsBase) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto buffer = torch::ones({2, 4});
    const auto row = buffer[0];
    const Counted counted;
    const auto fn = [=](at::Tensor h) {
      const auto before = (row + h).sin();
      buffer.copy_((weight * h).expand({2, 4}));
      counted.on(row);
      return (row.exp() * before).sin();
    };
    way(fn, x.exp()).sum().backward();
    return Seen{x.grad(), weight.grad(), buffer, counted.calls};
  });
}

// What made the view is gone once the write has given it another history.
TEST(LawStaleViews, AWrittenCapturedViewOfAnUnnamedResult) {
  law([](const Way& way) {
    const auto weight = leaf({2, 2});
    const auto view = torch::mm(weight.detach() + 1, weight).unsqueeze(0).squeeze(0).t();
    const auto fn = [=] {
      view.lerp_(torch::mm(weight.detach(), weight), 1);
      return std::vector<at::Tensor>{};
    };
    way(fn);
    view.sum().backward();
    return Seen{weight.grad(), view};
  });
}

TEST(LawStaleViews, HooksOnAWrittenCaptureStayAfterARecompute) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto buffer = torch::ones({4});
    const Counted inside, outside, later;
    const auto fn = [=](at::Tensor h) {
      buffer.copy_(h.exp());
      inside.on(buffer);
      return (buffer.exp() * h).sin();
    };
    const auto y = way(fn, x);
    outside.on(buffer);
    const auto loss = (y * buffer).sum();
    loss.backward({}, /*retain_graph=*/true);
    later.on(buffer);
    loss.backward();
    return Seen{x.grad(), inside.calls, outside.calls, later.calls};
  });
}

TEST(LawStaleViews, AWrittenCaptureRetainsItsGradient) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto buffer = torch::ones({4});
    const auto fn = [=](at::Tensor h) {
      buffer.copy_(h.exp());
      return (buffer.exp() * h).sin();
    };
    const auto y = way(fn, x);
    buffer.retain_grad();
    const auto loss = (y * buffer).sum();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    return Seen{x.grad(), buffer.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
