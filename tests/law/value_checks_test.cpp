// DeterminismCheck::Values: no false alarms whatever a region saves, no errors of LibTorch's own,
// and differences are reported.
#include "checkpoint/torch_versions.h"
#include "law/programs.h"

#include <torch/nested.h>

namespace reprise::testing {
namespace {

/// A region that computes the same twice does not alarm.
void no_alarm(const Program& program) {
  law(program, values_way());
}

/// The same, for what cannot be hashed: the error says that it is the check that cannot.
void no_alarm_or_no_hash(const Program& program) {
  law_or_refused(program, "DeterminismCheck::Values", values_way());
}

/// A region of one input and nothing else.
Program values_of(const at::Tensor& input, const std::function<at::Tensor(at::Tensor)>& fn) {
  return [=](const Way& way) {
    auto x = input.detach().clone().set_requires_grad(true);
    const auto y = way(fn, x);
    const auto loss = y.is_complex() ? torch::real(y * y).sum() : y.sum();
    loss.backward();
    return Tensors{loss.detach(), x.grad().resolve_conj()};
  };
}

template <class Rnn>
void rnn_values(Rnn rnn) {
  no_alarm([rnn](const Way& way) mutable {
    fill_with_sines(*rnn);
    rnn->zero_grad();
    auto x = sine_leaf({3, 2, 4});
    const auto y = way([rnn](at::Tensor h) mutable { return std::get<0>(rnn(h)); }, x);
    y.sum().backward();
    return joined({y.detach(), x.grad()}, contents_of(*rnn));
  });
}

TEST(LawValueChecks, AnLstm) {
  rnn_values(torch::nn::LSTM(torch::nn::LSTMOptions(4, 4)));
}

TEST(LawValueChecks, ABidirectionalLstmOfTwoLayersWithDropout) {
  rnn_values(
      torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).num_layers(2).bidirectional(true).dropout(0.5)));
}

TEST(LawValueChecks, AnLstmWithAProjection) {
  rnn_values(torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).proj_size(2)));
}

TEST(LawValueChecks, AGru) {
  rnn_values(torch::nn::GRU(torch::nn::GRUOptions(4, 4)));
}

TEST(LawValueChecks, ABidirectionalGruOfTwoLayersWithDropout) {
  rnn_values(
      torch::nn::GRU(torch::nn::GRUOptions(4, 4).num_layers(2).bidirectional(true).dropout(0.5)));
}

TEST(LawValueChecks, AnElmanNetworkOfTwoLayers) {
  rnn_values(torch::nn::RNN(torch::nn::RNNOptions(4, 4).num_layers(2)));
}

TEST(LawValueChecks, AnLstmInBfloat16) {
  no_alarm([](const Way& way) {
    torch::nn::LSTM lstm(4, 4);
    fill_with_sines(*lstm);
    lstm->to(at::kBFloat16);
    auto x = sine_leaf({3, 2, 4}, 0, at::kBFloat16);
    way([lstm](at::Tensor h) mutable { return std::get<0>(lstm(h)); }, x).sum().backward();
    return joined({x.grad()}, contents_of(*lstm));
  });
}

TEST(LawValueChecks, NestedTensors) {
  no_alarm_or_no_hash([](const Way& way) {
    auto a = sine_leaf({2, 4}), b = sine_leaf({3, 4}, 1);
    const auto fn = [](at::Tensor first, at::Tensor second) {
      const auto nested = torch::nested::as_nested_tensor({first.tanh(), second.tanh()});
      return nested.relu().to_padded_tensor(0).exp();
    };
    way(fn, a, b).sum().backward();
    return Tensors{a.grad(), b.grad()};
  });
}

#if REPRISE_NAMED_TENSORS
TEST(LawValueChecks, NamedTensors) {
  no_alarm([](const Way& way) {
    auto x = sine_leaf({2, 3});
    const auto fn = [](at::Tensor h) {
      const std::vector<at::Dimname> names{at::Dimname::fromSymbol(at::Symbol::dimname("rows")),
                                           at::Dimname::fromSymbol(at::Symbol::dimname("columns"))};
      return h.refine_names(names).tanh().exp().rename(std::nullopt) * 2;
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad()};
  });
}
#endif

TEST(LawValueChecks, ComplexNumbers) {
  no_alarm(values_of(torch::complex(sines({4}), sines({4}, 1)),
                     [](at::Tensor h) { return (h * h.conj()).exp() * h.sin(); }));
}

TEST(LawValueChecks, ConjugatedAndNegatedViews) {
  no_alarm(values_of(torch::complex(sines({4}), sines({4}, 1)), [](at::Tensor h) {
    const auto conjugate = h.conj();
    return conjugate * torch::imag(conjugate) * h;
  }));
}

TEST(LawValueChecks, HalfAndBfloat16) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kDouble}) {
    no_alarm(values_of(sines({4, 4}, 0, dtype), [](at::Tensor h) { return h.mm(h).tanh(); }));
  }
}

TEST(LawValueChecks, BoolsAndIntegers) {
  no_alarm(values_of(sines({4, 4}), [](at::Tensor h) {
    const auto order = std::get<1>(h.sort(-1));
    return h.gather(-1, order).masked_fill(h > 0, 0.5).tanh();
  }));
}

TEST(LawValueChecks, QuantizedTensors) {
  no_alarm_or_no_hash(values_of(sines({4, 4}), [](at::Tensor h) {
    const auto quantized = at::quantize_per_tensor(h.detach(), 0.1, 0, at::kQInt8);
    return (h * quantized.dequantize()).tanh();
  }));
}

TEST(LawValueChecks, AQuantizedInput) {
  no_alarm_or_no_hash([](const Way& way) {
    auto x = sine_leaf({4});
    const auto codes = at::quantize_per_tensor(sines({4}, 1), 0.1, 0, at::kQInt8);
    const auto fn = [](at::Tensor h, at::Tensor q) { return (h * q.dequantize()).tanh(); };
    way(fn, x, codes).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawValueChecks, SparseTensors) {
  no_alarm_or_no_hash([](const Way& way) {
    auto x = sine_leaf({3, 3});
    const auto indices = torch::tensor({{0, 1, 2}, {2, 0, 1}});
    const auto sparse = torch::sparse_coo_tensor(indices, sines({3}, 1), {3, 3}).coalesce();
    way([sparse](at::Tensor h) { return torch::mm(sparse, h.tanh()).exp(); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawValueChecks, CompressedSparseTensors) {
  no_alarm_or_no_hash([](const Way& way) {
    auto x = sine_leaf({3, 3});
    const auto sparse = torch::eye(3).to_sparse_csr();
    way([sparse](at::Tensor h) { return torch::mm(sparse, h.tanh()).exp(); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawValueChecks, EmptyAndZeroDimensionalTensors) {
  no_alarm(values_of(torch::zeros({0, 3}), [](at::Tensor h) { return h.tanh().exp(); }));
  no_alarm(values_of(torch::tensor(0.5), [](at::Tensor h) { return h.tanh().exp(); }));
}

TEST(LawValueChecks, ExpandedTransposedAndStridedTensors) {
  no_alarm(values_of(sines({4, 4}), [](at::Tensor h) {
    const auto expanded = h.narrow(0, 0, 1).expand({4, 4});
    return (expanded * h.t() * h.as_strided({4, 4}, {1, 2})).tanh();
  }));
}

TEST(LawValueChecks, NotANumberAndInfinity) {
  no_alarm(values_of(sines({8}), [](at::Tensor h) { return (h.log() / (h - h)).tanh() * h; }));
}

// These save results that they leave uninitialised where no gradient needs them.
TEST(LawValueChecks, OperatorsThatSaveScratchMemory) {
  const auto rows = torch::tensor({1, 0, 3, 2});
  no_alarm(values_of(sines({4, 4}), [rows](at::Tensor h) {
    return torch::nll_loss(h.log_softmax(-1), rows, {}, at::Reduction::None);
  }));
  no_alarm(values_of(sines({4, 4}), [rows](at::Tensor h) {
    return std::get<0>(at::embedding_bag(h.tanh(), rows, torch::tensor({0, 2}))).tanh();
  }));
  no_alarm(values_of(sines({1, 1, 6, 6}),
                     [](at::Tensor h) { return torch::max_pool2d(h.tanh(), 2).exp(); }));
  no_alarm(values_of(sines({1, 2, 6, 4}), [](at::Tensor h) {
    return at::scaled_dot_product_attention(h.tanh(), h.sin(), h.cos()).exp();
  }));
  no_alarm(values_of(sines({5, 1, 4}), [](at::Tensor h) {
    return torch::ctc_loss(
        h.log_softmax(-1), torch::tensor({{1, 2}}), torch::tensor({5}), torch::tensor({2}));
  }));
}

TEST(LawValueChecks, BatchNormInBothModes) {
  for (const bool trains : {true, false}) {
    no_alarm([trains](const Way& way) {
      torch::nn::BatchNorm1d norm(4);
      norm->train(trains);
      auto x = sine_leaf({8, 4});
      way([norm](at::Tensor h) mutable { return norm(h).tanh(); }, x).square().sum().backward();
      return joined({x.grad()}, contents_of(*norm));
    });
  }
}

TEST(LawValueChecks, ConvolutionsAndNorms) {
  no_alarm([](const Way& way) {
    torch::nn::Sequential net(torch::nn::Conv2d(2, 4, 3),
                              torch::nn::GroupNorm(2, 4),
                              torch::nn::GELU(),
                              torch::nn::ConvTranspose2d(4, 2, 3),
                              torch::nn::InstanceNorm2d(2));
    fill_with_sines(*net);
    auto x = sine_leaf({2, 2, 6, 6});
    way([net](at::Tensor h) mutable { return net->forward(h); }, x).square().sum().backward();
    return joined({x.grad()}, contents_of(*net));
  });
}

TEST(LawValueChecks, NestedRegions) {
  no_alarm([](const Way& way) {
    auto x = sine_leaf({4});
    const auto inner = [](at::Tensor h) { return torch::dropout(h.tanh(), 0.5, true).exp(); };
    way([=](at::Tensor h) { return way(inner, way(inner, h).sin()).cos(); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

/// A region that computes something else every time it runs is reported.
void reported(const at::Tensor& input,
              const std::function<at::Tensor(at::Tensor, double run)>& fn) {
  refused(
      [&](const Way& way) {
        auto x = input.detach().clone().set_requires_grad(true);
        auto runs = std::make_shared<int>(0);
        const auto y = way([fn, runs](at::Tensor h) { return fn(h, ++*runs); }, x);
        (y.is_complex() ? torch::real(y).sum() : y.sum()).backward();
        return Tensors{x.grad()};
      },
      "attacked",
      values_way());
}

TEST(LawValueChecks, ADifferentFactorIsReported) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    reported(sines({4}, 0, dtype), [](at::Tensor h, double run) { return (h * run).tanh(); });
  }
}

TEST(LawValueChecks, ADifferentComplexFactorIsReported) {
  reported(torch::complex(sines({4}), sines({4}, 1)),
           [](at::Tensor h, double run) { return (h * run).tanh(); });
}

TEST(LawValueChecks, OneDifferentElementIsReported) {
  reported(sines({1000}), [](at::Tensor h, double run) {
    auto offset = torch::zeros({1000});
    offset[777] = run;
    return (h + offset).tanh();
  });
}

TEST(LawValueChecks, ADifferentOrderIsReported) {
  reported(sines({8}),
           [](at::Tensor h, double run) { return h.roll(static_cast<int64_t>(run), 0).tanh(); });
}

TEST(LawValueChecks, ADifferentMaskIsReported) {
  reported(sines({8}), [](at::Tensor h, double run) {
    return h.masked_fill(h.detach() > (run - 1) / 2, 0).exp();
  });
}

TEST(LawValueChecks, TheOtherZeroIsReported) {
  reported(torch::zeros({8}), [](at::Tensor h, double run) { return (h * (1.5 - run)).sin(); });
}

TEST(LawValueChecks, ADifferenceInAnLstmIsReported) {
  torch::nn::LSTM lstm(4, 4);
  reported(sines({3, 2, 4}),
           [lstm](at::Tensor h, double run) mutable { return std::get<0>(lstm(h * run)); });
}

}  // namespace
}  // namespace reprise::testing
