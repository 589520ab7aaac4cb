// Policies of every kind change no bits.
#include "law/programs.h"

namespace reprise::testing {
namespace {

using PolicyBlock = std::function<at::Tensor(at::Tensor)>;

/// One block, as a region under each of these policies; backward twice.
void under(const std::vector<std::shared_ptr<const Policy>>& policies,
           at::IntArrayRef sizes,
           const PolicyBlock& block) {
  std::vector<Way> kept;
  for (const auto& policy : policies) {
    kept.push_back({policy->describe(), {.policy = policy, .name = "attacked"}});
    kept.push_back(
        {policy->describe() + ", values",
         {.determinism_check = DeterminismCheck::Values, .policy = policy, .name = "attacked"}});
  }
  const auto shape = sizes.vec();
  law(
      [&](const Way& way) {
        auto x = sine_leaf(shape);
        const auto loss = way(block, x.sin()).sum();
        loss.backward({}, /*retain_graph=*/true);
        const auto first = x.grad().clone();
        loss.backward();
        return Tensors{loss.detach(), first, x.grad()};
      },
      kept);
}

/// Keeps whatever it may.
std::shared_ptr<const Policy> keep_all() {
  return policy::from(
      [](const OpContext& op) {
        const bool writes = op.name.ends_with('_') || op.overload.find("out") != std::string::npos;
        return writes ? Decision::Recompute : Decision::Keep;
      },
      "keep_all");
}

/// Keeps every second call of any operator, starting with the second.
std::shared_ptr<const Policy> keep_odd() {
  return policy::from(
      [](const OpContext& op) {
        const bool writes = op.name.ends_with('_') || op.overload.find("out") != std::string::npos;
        return writes || op.call_index % 2 == 0 ? Decision::Recompute : Decision::Keep;
      },
      "keep_odd");
}

std::vector<std::shared_ptr<const Policy>> callbacks() {
  return {keep_all(), keep_odd(), keep_some(), policy::full()};
}

TEST(LawPolicies, EveryOperatorOfABlockByItsName) {
  const auto block = [](at::Tensor h) {
    return torch::dropout(h.mm(h.t()).tanh() + 1, 0.5, true).exp().softmax(-1) * 2;
  };
  for (const std::string name :
       {"aten::mm", "aten::tanh", "aten::add", "aten::exp", "aten::_softmax", "aten::mul"}) {
    under({policy::save_ops({name})}, {4, 4}, block);
  }
}

TEST(LawPolicies, EveryKthMatmul) {
  const auto block = [](at::Tensor h) {
    for (int i = 0; i < 5; ++i) {
      h = torch::dropout(h.mm(h.t()).tanh(), 0.2, true);
    }
    return h;
  };
  for (size_t every = 1; every <= 6; ++every) {
    under({policy::save_matmuls(every)}, {4, 4}, block);
  }
}

TEST(LawPolicies, Attention) {
  under({policy::save_attention(), keep_all()}, {1, 2, 6, 8}, [](at::Tensor h) {
    return at::scaled_dot_product_attention(h.tanh(), h.sin(), h.cos()).exp();
  });
}

TEST(LawPolicies, Callbacks) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    return torch::layer_norm(h.mm(h.t()), {4}).relu().log_softmax(-1).exp() * h;
  });
}

TEST(LawPolicies, RandomOperatorsOfEveryKind) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    h = torch::dropout(h, 0.5, true) + torch::rand_like(h) * torch::randn({4, 4});
    h = h * torch::bernoulli(h.detach().sigmoid()) + torch::rand({4, 4}).uniform_();
    h = h.sin() + torch::randint(5, {4, 4});
    return (h * torch::randperm(4)).tanh() + torch::normal(0.0, 1.0, {4, 4});
  });
}

TEST(LawPolicies, InPlaceOperatorsOnKeptResults) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    auto a = h * 2;
    a.add_(1);
    auto b = a.sin();
    b.narrow(0, 0, 2).mul_(3).relu_();
    return (b.exp() + a.clone().zero_()).tanh() * 2;
  });
}

TEST(LawPolicies, ArgumentsOfKeptOperatorsAreOverwritten) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    auto a = h + 1;
    const auto b = a + 2;
    a.zero_();
    const auto c = b * 2 + a;
    return (c.tanh() + b).exp();
  });
}

TEST(LawPolicies, ResultsThatAliasTheirArguments) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    auto a = h.tanh();
    auto b = a.reshape({2, 8}).contiguous().to(at::kFloat).view({4, 4}).detach() + a.expand({4, 4});
    b.select(0, 0).add_(1);
    return (a.t().contiguous() * b.unsqueeze(0).squeeze(0)).exp();
  });
}

TEST(LawPolicies, OperatorsWithSeveralResults) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    const auto [sorted, order] = h.tanh().sort(-1);
    const auto [top, where] = (sorted * 2).topk(3);
    const auto parts = (h * h).unbind(0);
    const auto [q, r] = torch::linalg_qr(h + torch::eye(4) * 3);
    return (top.sum(-1) + parts[1] * parts[2] + q.mm(r).diagonal() + order.sum() + where.sum())
        .exp();
  });
}

TEST(LawPolicies, OperatorsWhoseResultIsANumber) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    const auto scale = h.detach().abs().max().item<double>();
    const bool same = torch::equal(h.detach(), h.detach());
    const bool any = (h.detach() > 0.5).any().item<bool>();
    return (h / scale).tanh() * (same ? 2 : 3) * (any ? 5 : 7);
  });
}

TEST(LawPolicies, OutArguments) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    auto out = torch::empty({4, 4});
    const auto plain = h.detach();
    torch::mm_out(out, plain, plain);
    auto second = torch::empty({0});
    torch::add_out(second, out, plain);
    return (h * out + second).tanh();
  });
}

TEST(LawPolicies, BatchNormWritesItsBuffersWhetherKeptOrNot) {
  for (const auto& policy : callbacks()) {
    law(
        [](const Way& way) {
          torch::nn::BatchNorm1d norm(4);
          auto x = sine_leaf({8, 4});
          const auto fn = [norm](at::Tensor h) {
            auto module = norm;
            return module(module(h).tanh()).exp();
          };
          for (int step = 0; step < 2; ++step) {
            way(fn, x).square().sum().backward();
          }
          return joined({x.grad()}, contents_of(*norm));
        },
        {{policy->describe(), {.policy = policy, .name = "attacked"}}});
  }
}

TEST(LawPolicies, MasksAreCompressedExactly) {
  const auto masks = policy::from(
      [](const OpContext& op) {
        return op.name == "aten::gt" || op.name == "aten::native_dropout" ? Decision::Compress
                                                                          : Decision::Recompute;
      },
      "compressed masks");
  under({masks}, {300, 300}, [](at::Tensor h) {
    h = std::get<0>(torch::native_dropout(h, 0.3, true));
    return torch::where(h > 0.1, h.tanh(), h.sin()) * (h.t() > 0);
  });
}

TEST(LawPolicies, AKeptResultIsReturnedAndChangedAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto fn = [](at::Tensor h) {
          h = h.sin() + 1;
          return std::pair(h, (h + 2).exp());
        };
        const auto [a, b] = way(fn, x);
        a.mul_(3);
        (a + b).sum().backward();
        return Tensors{x.grad(), a.detach()};
      },
      "[reprise]",
      {{"keep all", {.policy = keep_all(), .name = "attacked"}},
       {"keep some", {.policy = keep_some(), .name = "attacked"}}});
}

TEST(LawPolicies, ABufferIsReadBeforeAndAfterItIsWritten) {
  for (const auto& policy : callbacks()) {
    law(
        [](const Way& way) {
          auto x = sine_leaf({4}), buffer = torch::ones({4});
          auto fn = [buffer](at::Tensor h) mutable {
            h = h + buffer * 1;
            buffer.add_(h.detach());
            h = h + buffer * 1;
            buffer.mul_(2);
            return (h + buffer * 1).tanh();
          };
          way(fn, way(fn, x)).sum().backward();
          return Tensors{x.grad(), buffer};
        },
        {{policy->describe(), {.policy = policy, .name = "attacked"}}});
  }
}

TEST(LawPolicies, AKeptResultThatWasWrittenOnlyInTheRecomputedPart) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    auto total = torch::zeros({4, 4});
    for (int i = 0; i < 4; ++i) {
      total += h.mm(h.t()) * (i + 1);  // written between kept products
      h = (h + total.detach() * 0.1).tanh();
    }
    return h * total;
  });
}

TEST(LawPolicies, GradientsInsideTheRegionUseKeptResults) {
  under(callbacks(), {4, 4}, [](at::Tensor h) {
    const auto energy = h.mm(h.t()).tanh().square().sum();
    return torch::autograd::grad({energy}, {h}, {}, true, true)[0].sin();
  });
}

TEST(LawPolicies, OnePolicySharedByManyRegions) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        at::Tensor h = x;
        for (int i = 0; i < 20; ++i) {
          h = way([](at::Tensor v) { return torch::dropout(v.mm(v.t()).tanh(), 0.1, true); }, h);
        }
        h.sum().backward();
        return Tensors{x.grad()};
      },
      {{"matmuls", {.policy = policy::save_matmuls(), .name = "attacked"}},
       {"all", {.policy = keep_all(), .name = "attacked"}}});
}

}  // namespace
}  // namespace reprise::testing
