// Inputs of every kind: complex, low precision, integer, empty, zero-dimensional, sparse, expanded.
#include "law/programs.h"

namespace reprise::testing {
namespace {

/// A region with one input that gets a gradient, backward by the sum of its squares.
void one_input(const at::Tensor& input,
               const std::function<at::Tensor(at::Tensor)>& fn,
               const std::vector<Way>& others = all_ways()) {
  law(
      [&](const Way& way) {
        auto x = input.detach().clone().set_requires_grad(true);
        const auto y = way(fn, x);
        (y.is_complex() ? torch::view_as_real(y) : y).square().sum().backward();
        return Tensors{y.detach().resolve_conj(), x.grad().resolve_conj()};
      },
      others);
}

TEST(LawDtypes, Floats) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    one_input(sines({4, 4}, 0, dtype), [](at::Tensor h) { return h.mm(h.t()).tanh() * h; });
  }
}

TEST(LawDtypes, ConversionsInside) {
  one_input(sines({4, 4}), [](at::Tensor h) {
    h = h.to(at::kBFloat16).tanh().to(at::kDouble).exp();
    return h.to(at::kHalf).sin().to(at::kFloat);
  });
}

TEST(LawDtypes, ComplexNumbers) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    one_input(torch::complex(sines({4, 4}, 0, dtype), sines({4, 4}, 1, dtype)),
              [](at::Tensor h) { return h.mm(h.conj().t()).tanh() * h.abs(); });
  }
}

TEST(LawDtypes, ConjugateTransposesAndImaginaryParts) {
  one_input(torch::complex(sines({4, 4}), sines({4, 4}, 1)),
            [](at::Tensor h) { return torch::imag(h.mH().mm(h)) * torch::real(h.conj()).exp(); });
}

TEST(LawDtypes, ALazyConjugateAsInput) {
  law(
      [](const Way& way) {
        auto x = torch::complex(sines({4}), sines({4}, 1)).set_requires_grad(true);
        const auto y = way([](at::Tensor h) { return h.exp() * h; }, x.conj());
        torch::view_as_real(y).sum().backward();
        return Tensors{x.grad().resolve_conj()};
      },
      all_ways());
}

TEST(LawDtypes, AFourierTransform) {
  one_input(sines({4, 8}), [](at::Tensor h) { return at::fft_irfft(at::fft_rfft(h).tanh()); });
}

TEST(LawDtypes, IntegersBoolsAndNothingBesideAnInput) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto fn = [](at::Tensor h,
                           at::Tensor rows,
                           at::Tensor mask,
                           at::Tensor nothing,
                           std::optional<at::Tensor> none,
                           int64_t shift) {
          h = h.index_select(0, rows).masked_fill(mask, 0.1);
          return nothing.defined() || none ? h : h.roll(shift, 0).tanh();
        };
        way(fn,
            x,
            torch::tensor({3, 1, 1, 0}),
            sines({4, 4}, 1) > 0,
            at::Tensor(),
            std::optional<at::Tensor>(),
            int64_t{2})
            .sum()
            .backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawDtypes, OnlyIntegersAsInputs) {
  law([](const Way& way) {
    auto table = sine_leaf({5, 4});
    const auto fn = [table](at::Tensor ids) { return torch::embedding(table, ids).tanh().exp(); };
    way(fn, torch::tensor({4, 0, 0, 2})).sum().backward();
    return Tensors{table.grad()};
  });
}

TEST(LawDtypes, NoInputsAtAll) {
  law([](const Way& way) {
    auto w = sine_leaf({4});
    way([w] { return torch::dropout(w.tanh(), 0.5, true).exp(); }).sum().backward();
    return Tensors{w.grad()};
  });
}

TEST(LawDtypes, EmptyTensors) {
  one_input(torch::zeros({0, 4}), [](at::Tensor h) { return h.tanh().mm(sines({4, 2})).exp(); });
  one_input(torch::zeros({0}), [](at::Tensor h) { return h.exp().sin(); });
}

TEST(LawDtypes, ZeroDimensionalTensors) {
  one_input(torch::tensor(0.5), [](at::Tensor h) { return (h * h).tanh() * sines({3}); });
}

TEST(LawDtypes, AScalarThatIsAWrappedNumber) {
  one_input(sines({4}, 0, at::kBFloat16), [](at::Tensor h) {
    return (h * torch::scalar_tensor(1.01, at::kDouble)).tanh() * 0.3;
  });
}

TEST(LawDtypes, ASparseInput) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({3, 3});
        const auto indices = torch::tensor({{0, 1, 2}, {2, 0, 1}});
        const auto sparse = torch::sparse_coo_tensor(indices, sines({3}, 1), {3, 3}).coalesce();
        const auto fn = [](at::Tensor s, at::Tensor h) { return torch::mm(s, h.tanh()).exp(); };
        way(fn, sparse, x).sum().backward();
        return Tensors{x.grad()};
      },
      {ways()[0], ways()[1]});
}

TEST(LawDtypes, ASparseGradient) {
  law([](const Way& way) {
    auto table = sine_leaf({5, 4});
    const auto fn = [table](at::Tensor ids) {
      return torch::embedding(table, ids, -1, false, /*sparse=*/true).tanh();
    };
    way(fn, torch::tensor({4, 0, 0, 2})).sum().backward();
    EXPECT_TRUE(table.grad().is_sparse());
    return Tensors{table.grad().to_dense()};
  });
}

TEST(LawDtypes, AnExpandedInput) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 1});
        const auto fn = [](at::Tensor h) { return (h * sines({4, 4})).tanh() * h; };
        way(fn, x.expand({4, 4})).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawDtypes, AnOverlappingInput) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({10});
        way([](at::Tensor h) { return h.tanh().exp() * h; }, x.unfold(0, 4, 2)).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawDtypes, TransposedAndChannelsLastInputs) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 3}), image = sine_leaf({1, 3, 5, 5});
        auto kernel = sine_leaf({2, 3, 3, 3}, 1);
        const auto y = way([](at::Tensor h) { return h.reshape({-1}).tanh(); }, x.t());
        const auto z = way([kernel](at::Tensor h) { return torch::conv2d(h, kernel).tanh(); },
                           image.contiguous(at::MemoryFormat::ChannelsLast));
        (y.sum() + z.sum()).backward();
        return Tensors{x.grad(), image.grad(), kernel.grad()};
      },
      all_ways());
}

TEST(LawDtypes, ALargeFlatTensorOfMoreThanOneHashedChunk) {
  one_input(
      sines({(1 << 20) + 17}), [](at::Tensor h) { return h.tanh().exp(); }, {ways()[0], ways()[3]});
}

TEST(LawDtypes, AMixtureOfDtypesInOneStructure) {
  law([](const Way& way) {
    auto x = sine_leaf({4}), y = sine_leaf({4}, 1, at::kDouble);
    const auto fn = [](const std::vector<at::Tensor>& all) {
      return std::tuple(all[0].tanh() * all[1], all[1].exp(), all[2] + 1);
    };
    const auto [a, b, c] = way(fn, std::vector<at::Tensor>{x, y, torch::arange(4)});
    (a.sum() + b.sum()).backward();
    return Tensors{x.grad(), y.grad(), c};
  });
}

TEST(LawDtypes, AnInferenceTensorAsInput) {
  law([](const Way& way) {
    auto w = sine_leaf({4});
    at::Tensor x;
    {
      const c10::InferenceMode inference;
      x = sines({4}, 1);
    }
    way([w](at::Tensor h) { return (h + w).tanh(); }, x).sum().backward();
    return Tensors{w.grad()};
  });
}

TEST(LawDtypes, NotANumberAndInfinity) {
  one_input(sines({8}), [](at::Tensor h) { return h.log().tanh() * (h / (h - h)); });
}

}  // namespace
}  // namespace reprise::testing
