// Results that a policy keeps, changed in place inside and after the region, through tensors that
// share their storage with or without autograd's knowledge.
#include "law/law.h"

#include <torch/library.h>

#include <functional>
#include <tuple>

namespace reprise::testing {
namespace {

/// A tensor that shares the storage of another.
using MakeAlias = std::function<at::Tensor(const at::Tensor&)>;

const auto keep_products = [](CheckpointOptions& options) {
  options.policy = policy::save_ops({"aten::mm"});
};

/// The product is kept, read, changed through an alias inside the region, and read again.
Program changed_inside(MakeAlias alias) {
  return [alias = std::move(alias)](const Way& way) {
    const auto x = leaf({2, 4}), weight = leaf({4, 4});
    const auto fn = [alias, weight](at::Tensor h) {
      const auto product = torch::mm(h, weight);
      const auto before = product.exp();
      {
        const torch::NoGradGuard no_grad;
        alias(product).mul_(0.5);
      }
      return before.sin() * product.clone();
    };
    const auto y = way.with(keep_products, fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), weight.grad(), y};
  };
}

/// The alias leaves the region and is changed after it. Autograd needs the values of before.
Program changed_after(MakeAlias alias) {
  return [alias = std::move(alias)](const Way& way) {
    const auto x = leaf({2, 4}), weight = leaf({4, 4});
    const auto fn = [alias, weight](at::Tensor h) {
      const auto product = torch::mm(h, weight);
      return std::make_tuple(product.exp().sin(), alias(product));
    };
    const auto [y, shared] = way.with(keep_products, fn, x);
    {
      const torch::NoGradGuard no_grad;
      at::Tensor(shared).mul_(0.5);
    }
    y.sum().backward();
    return Seen{x.grad(), weight.grad(), shared};
  };
}

void changed_inside_and_after(const MakeAlias& alias) {
  law(changed_inside(alias));
  law_or_refused(changed_after(alias), "attacked");
}

TEST(LawKeptResults, ChangedThroughAView) {
  changed_inside_and_after([](const at::Tensor& t) { return t.view({8}); });
}

TEST(LawKeptResults, ChangedThroughAReshape) {
  changed_inside_and_after([](const at::Tensor& t) { return t.reshape({4, 2}); });
}

TEST(LawKeptResults, ChangedThroughANarrowedTranspose) {
  changed_inside_and_after([](const at::Tensor& t) { return t.t().narrow(0, 1, 2); });
}

TEST(LawKeptResults, ChangedThroughUnsafeChunk) {
  changed_inside_and_after([](const at::Tensor& t) { return torch::unsafe_chunk(t, 2, 1)[0]; });
}

TEST(LawKeptResults, ChangedThroughUnsafeSplit) {
  changed_inside_and_after([](const at::Tensor& t) { return torch::unsafe_split(t, 1, 0)[1]; });
}

TEST(LawKeptResults, ChangedThroughUnsafeSplitWithSizes) {
  changed_inside_and_after([](const at::Tensor& t) {
    return torch::unsafe_split_with_sizes(t, {1, 3}, 1)[1];
  });
}

TEST(LawKeptResults, ChangedThroughUnsafeView) {
  changed_inside_and_after([](const at::Tensor& t) { return at::_unsafe_view(t, {8}); });
}

TEST(LawKeptResults, ChangedThroughDetach) {
  changed_inside_and_after([](const at::Tensor& t) { return t.detach(); });
}

TEST(LawKeptResults, ChangedThroughData) {
  changed_inside_and_after([](const at::Tensor& t) { return t.data(); });
}

TEST(LawKeptResults, ChangedThroughSet) {
  changed_inside_and_after([](const at::Tensor& t) {
    const torch::NoGradGuard no_grad;
    return torch::empty({0}).set_(t.detach());
  });
}

TEST(LawKeptResults, ChangedThroughAStorage) {
  changed_inside_and_after([](const at::Tensor& t) {
    const torch::NoGradGuard no_grad;
    return torch::empty({0}).set_(t.storage(), 2, {4}, {1});
  });
}

// The alias is not declared in the schema.
at::Tensor same_tensor(const at::Tensor& x) {
  return x.view(x.sizes());
}

TORCH_LIBRARY(law_kept_results_test, m) {
  m.def("same(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(law_kept_results_test, CPU, m) {
  m.impl("same", same_tensor);
}

at::Tensor call_same(const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("law_kept_results_test::same", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x.detach());
}

TEST(LawKeptResults, ChangedThroughAnUndeclaredAlias) {
  changed_inside_and_after(call_same);
}

TEST(LawKeptResults, AKeptUndeclaredAliasOfWhatIsChanged) {
  const auto keep_alias = [](CheckpointOptions& options) {
    options.policy = policy::save_ops({"law_kept_results_test::same"});
  };
  law_or_refused(
      [=](const Way& way) {
        const auto x = leaf({4});
        const auto buffer = torch::ones({4});
        const auto fn = [buffer](at::Tensor h) {
          const auto shared = call_same(buffer);
          h = h.exp() * shared.clone();
          buffer.add_(h.detach());
          return h.sin() * shared.clone();
        };
        way.with(keep_alias, fn, way.with(keep_alias, fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      "attacked");
}

TEST(LawKeptResults, ChangedThroughAViewFromBeforeItWasKept) {
  law([](const Way& way) {
    const auto keep_sums = [](CheckpointOptions& options) {
      options.policy = policy::save_ops({"aten::add.Tensor"});
    };
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      const auto sum = torch::add(h, torch::ones({4}));
      const auto view = sum.view({2, 2});
      h = sum.exp().sin();
      view.select(0, 1).mul_(2);
      h = h * sum.exp();
      view.mul_(3);
      return h * sum;
    };
    way.with(keep_sums, fn, x).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawKeptResults, ChangedWithHistory) {
  law([](const Way& way) {
    const auto x = leaf({2, 4}), weight = leaf({4, 4});
    const auto fn = [weight](at::Tensor h) {
      const auto product = torch::mm(h, weight);
      const auto before = product.exp();
      product.narrow(1, 1, 2).mul_(h.narrow(1, 0, 2));
      product.add_(before);
      return before.sin() * product.cos();
    };
    const auto y = way.with(keep_products, fn, way.with(keep_products, fn, x));
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawKeptResults, ChangedBelowAutograd) {
  law([](const Way& way) {
    const auto x = leaf({2, 4}), weight = leaf({4, 4});
    const auto fn = [weight](at::Tensor h) {
      const auto product = torch::mm(h, weight);
      const auto before = product.exp();
      {
        const at::AutoDispatchBelowADInplaceOrView guard;
        product.mul_(0.5);
      }
      return before.sin() * product.clone();
    };
    way.with(keep_products, fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawKeptResults, ChangedByAnInnerRegion) {
  law([](const Way& way) {
    const auto x = leaf({2, 4}), weight = leaf({4, 4});
    const auto scale = [](at::Tensor h, at::Tensor target) {
      const torch::NoGradGuard no_grad;
      target.mul_(0.5);
      return h;
    };
    const auto fn = [=](at::Tensor h) {
      const auto product = torch::mm(h, weight);
      const auto before = product.exp();
      const auto result = way(scale, before.sin(), product.detach());
      return result * product.clone();
    };
    way.with(keep_products, fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawKeptResults, TheResultOfTheRegionIsChangedInPlace) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({2, 4}), weight = leaf({4, 4});
        const auto fn = [weight](at::Tensor h) {
          const auto product = torch::mm(h.exp(), weight);
          return std::make_tuple(product, product.exp().sin());
        };
        auto [product, y] = way.with(keep_products, fn, x);
        product.add_(1);
        (product * y).sum().backward();
        return Seen{x.grad(), weight.grad()};
      },
      "attacked");
}

/// Keeps operators whose name contains `part`, if they do not write.
auto keeping(std::string part) {
  return [part = std::move(part)](CheckpointOptions& options) {
    options.policy = policy::from([part](const OpContext& op) {
      const bool writes = op.name.ends_with('_') || op.overload == "out";
      return !writes && op.name.find(part) != std::string_view::npos ? Decision::Keep
                                                                     : Decision::Recompute;
    });
  };
}

TEST(LawKeptResults, RandomOperators) {
  law([](const Way& way) {
    const auto x = leaf({8});
    const auto fn = [](at::Tensor h) {
      h = h.exp() * torch::bernoulli(torch::full({8}, 0.5));
      h = std::get<0>(torch::native_dropout(h, 0.5, true)).sin();
      h = h * torch::rand({8}) * torch::bernoulli(torch::full({8}, 0.9));
      return torch::dropout(h, 0.5, true).exp();
    };
    for (const auto* kept : {"bernoulli", "native_dropout", "rand", "mul"}) {
      const auto y = way.with(keeping(kept), fn, way.with(keeping(kept), fn, x));
      torch::rand({3});
      y.sum().backward({}, /*retain_graph=*/true);
      y.sum().backward();
    }
    return Seen{x.grad()};
  });
}

TEST(LawKeptResults, KeptRandomResultsAreChangedInPlace) {
  law([](const Way& way) {
    const auto x = leaf({8});
    const auto fn = [](at::Tensor h) {
      auto mask = torch::bernoulli(torch::full({8}, 0.5));
      h = h.exp() * mask.clone();
      mask.mul_(3).add_(torch::rand({8}));
      return (h.sin() * mask).exp();
    };
    const auto y = way.with(keeping("bernoulli"), fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawKeptResults, OperatorsWithSeveralResults) {
  law([](const Way& way) {
    const auto x = leaf({3, 4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      h = torch::layer_norm(h.exp(), {4}, weight);
      const auto [values, indices] = torch::sort(h.sin(), -1);
      const auto [mean, var] = torch::var_mean(values.exp(), {1}, true, true);
      auto parts = torch::unsafe_split((values * mean + var).sin(), 2, 1);
      return parts[0].exp() * parts[1] * indices.narrow(1, 0, 2);
    };
    for (const auto* kept : {"native_layer_norm", "sort", "var_mean", "unsafe_split"}) {
      const auto y = way.with(keeping(kept), fn, x);
      y.sum().backward({}, /*retain_graph=*/true);
      y.sum().backward();
    }
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawKeptResults, OneOfSeveralResultsIsChangedInPlace) {
  law([](const Way& way) {
    const auto x = leaf({3, 4});
    const auto fn = [](at::Tensor h) {
      auto parts = torch::unsafe_split(h.sin(), 2, 1);
      const auto first = parts[0].exp().sin();
      {
        const torch::NoGradGuard no_grad;
        parts[0].mul_(0.5);
        parts[1].add_(1);
      }
      return first * parts[0].clone() * parts[1].exp();
    };
    for (const auto* kept : {"unsafe_split", "sin", "exp"}) {
      const auto y = way.with(keeping(kept), fn, x);
      y.sum().backward({}, /*retain_graph=*/true);
      y.sum().backward();
    }
    return Seen{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
