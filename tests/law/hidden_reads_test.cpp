// Reads and changes that are easy to miss: a region reads a captured tensor through an alias, on
// another thread or in an operator of the program's own, and it changes before backward.
#include "law/programs.h"

#include <torch/library.h>

#include <thread>

namespace reprise::testing {
namespace {

using Read = std::function<at::Tensor(at::Tensor h, const at::Tensor& offset)>;

/// `read` gives h + offset in some way; plain autograd saves neither.
void hidden_read(const Read& read,
                 const std::vector<Way>& others = all_ways(),
                 const std::string& cause = kModified) {
  law_or_refused(
      [&](const Way& way) {
        auto x = sine_leaf({4}), offset = sine_leaf({4}, 1);
        const auto y = way([offset, read](at::Tensor h) { return read(h, offset).tanh(); }, x);
        {
          const torch::NoGradGuard no_grad;
          offset.mul_(3);
        }
        y.sum().backward();
        return Tensors{y.detach(), x.grad()};
      },
      cause,
      others);
}

TEST(LawHiddenReads, ThroughADetachedAlias) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) { return h + offset.detach(); });
}

TEST(LawHiddenReads, ThroughDataAlias) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) { return h + offset.data(); });
}

TEST(LawHiddenReads, ThroughAViewOfADetachedAlias) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return h + offset.detach().view({2, 2}).t().reshape({4});
  });
}

TEST(LawHiddenReads, ThroughAViewUnderNoGrad) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    at::Tensor part;
    {
      const torch::NoGradGuard no_grad;
      part = offset.narrow(0, 0, 1) * 2;
    }
    return h + part;
  });
}

TEST(LawHiddenReads, BelowAutograd) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    at::Tensor twice;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      twice = offset * 2;
    }
    return h + twice.detach();
  });
}

TEST(LawHiddenReads, InInferenceMode) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    at::Tensor twice;
    {
      const c10::InferenceMode inference;
      twice = offset * 2;
    }
    return h + twice;
  });
}

TEST(LawHiddenReads, ByAnInPlaceOperator) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) { return (h * 1).add_(offset); });
}

TEST(LawHiddenReads, ByAnOutArgument) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    auto out = torch::empty({4});
    at::mul_out(out, offset.detach(), torch::full({}, 2.0));
    return h + out;
  });
}

TEST(LawHiddenReads, ByAListOfTensors) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return torch::cat({h, offset}).view({2, 4}).sum(0) +
           at::_foreach_mul({offset.detach()}, 2.0)[0];
  });
}

TEST(LawHiddenReads, ByEinsumAndItem) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return h + torch::einsum("i,i->", {offset.detach(), torch::ones({4})}).item<double>();
  });
}

TEST(LawHiddenReads, ByAComparison) {
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return torch::equal(offset.detach(), sines({4}, 1)) ? h * 2 : h * 3;
  });
}

TEST(LawHiddenReads, ByACustomFunction) {
  struct AddDetached : torch::autograd::Function<AddDetached> {
    static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor h, at::Tensor offset) {
      return h + offset;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list grads) {
      return {grads[0], at::Tensor()};
    }
  };
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return AddDetached::apply(h, offset.detach());
  });
}

TEST(LawHiddenReads, OnAnotherThread) {
  hidden_read(
      [](at::Tensor h, const at::Tensor& offset) {
        at::Tensor sum;
        std::thread([&] { sum = h.detach() + offset.detach(); }).join();
        return h * sum;
      },
      ways(),
      // Only its effect is seen there: on the CPU, or by DeterminismCheck::Values.
      "different values");
}

TEST(LawHiddenReads, InAnInnerRegionThroughAnAlias) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto outer = [way, offset](at::Tensor h) {
          const auto inner = [alias = offset.detach()](at::Tensor v) { return (v + alias).sin(); };
          return way(inner, h).exp();
        };
        const auto y = way(outer, x);
        offset.mul_(3);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

/// An operator of the program's own, registered after the first region has run.
class OwnOperators {
 public:
  OwnOperators() : library_(torch::Library::DEF, "law_own", std::nullopt, __FILE__, __LINE__) {
    library_.def(
        "shifted(Tensor h, Tensor offset) -> Tensor",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                        [](const at::Tensor& h, const at::Tensor& offset) { return h + offset; }));
    library_.def("count_(Tensor(a!) counter) -> Tensor(a!)");
    library_.impl("count_", c10::DispatchKey::CPU, [](at::Tensor& counter) -> at::Tensor& {
      counter.data_ptr<float>()[0] += 1;
      return counter;
    });
  }
  static at::Tensor shifted(const at::Tensor& h, const at::Tensor& offset) {
    return op("law_own::shifted")
        .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>()
        .call(h, offset);
  }
  static void count(at::Tensor& counter) {
    op("law_own::count_").typed<at::Tensor&(at::Tensor&)>().call(counter);
  }

 private:
  static c10::OperatorHandle op(const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  }
  torch::Library library_;
};

void run_a_region_first() {
  checkpoint([](at::Tensor h) { return h.tanh(); }, sine_leaf({4})).sum().backward();
}

TEST(LawHiddenReads, ByAnOperatorThatIsRegisteredLate) {
  run_a_region_first();
  const OwnOperators operators;
  hidden_read([](at::Tensor h, const at::Tensor& offset) {
    return OwnOperators::shifted(h, offset.detach());
  });
}

TEST(LawHiddenReads, AWriteOfAnOperatorThatIsRegisteredLate) {
  run_a_region_first();
  const OwnOperators operators;
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), counter = torch::zeros({4});
        const auto fn = [counter](at::Tensor h) {
          at::Tensor counted = counter;
          {
            const torch::NoGradGuard no_grad;
            OwnOperators::count(counted);
          }
          return (h * counter.clone()).tanh();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad(), counter};
      },
      "[reprise]",
      all_ways());
}

TEST(LawHiddenReads, ACapturedActivationIsChangedAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        auto offset = w * 2;
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        offset.mul_(3);
        (y.sum() + offset.sum()).backward();
        return Tensors{x.grad(), w.grad()};
      },
      kModified);
}

TEST(LawHiddenReads, ADetachedActivationIsChangedAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        const auto activation = w * 2;
        const auto offset = activation.detach();
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        activation.mul_(3);
        (y.sum() + activation.sum()).backward();
        return Tensors{x.grad(), w.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawHiddenReads, AGradientThatBackwardAccumulates) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), w = sine_leaf({4}, 1);
        w.mutable_grad() = sines({4}, 2);
        const auto scaled = [w](at::Tensor h) { return (h + w.grad().norm()).tanh(); };
        const auto h = way(scaled, x);
        (h * w).sum().backward();  // adds to w's gradient before the region runs again
        return Tensors{x.grad(), w.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawHiddenReads, ValuesOfASparseTensorAreChangedAfterwards) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({3, 3});
        const auto indices = torch::tensor({{0, 1, 2}, {2, 0, 1}});
        const auto sparse = torch::sparse_coo_tensor(indices, sines({3}, 1), {3, 3}).coalesce();
        const auto fn = [sparse](at::Tensor h) { return (h + sparse.to_dense()).tanh(); };
        const auto y = way(fn, x);
        sparse.values().mul_(3);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawHiddenReads, OneMemoryInTwoTensors) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        std::vector<float> memory{1, 2, 3, 4};
        const auto first = torch::from_blob(memory.data(), {4});
        auto second = torch::from_blob(memory.data(), {4});
        const auto y = way([first](at::Tensor h) { return (h + first).tanh(); }, x);
        second.mul_(3);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawHiddenReads, DataIsSetTwice) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        for (int i = 0; i < 8; ++i) {  // until it may be where it was
          offset.set_data(sines({4}, 2 + i));
        }
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

/// An argument of the region is changed by `change`.
void changed_input(const std::function<void(at::Tensor&)>& change) {
  law_or_refused(
      [&](const Way& way) {
        auto x = sine_leaf({4}), offset = sine_leaf({4}, 1);
        const auto y = way([](at::Tensor h, at::Tensor b) { return (h + b).tanh(); }, x, offset);
        {
          const torch::NoGradGuard no_grad;
          change(offset);
        }
        y.sum().backward();
        return Tensors{x.grad(), offset.grad()};
      },
      "attacked",
      all_ways());
}

TEST(LawHiddenReads, AnInputIsChangedByData) {
  changed_input([](at::Tensor& input) { input.data().mul_(3); });
}

TEST(LawHiddenReads, AnInputIsChangedBySetData) {
  changed_input([](at::Tensor& input) { input.set_data(sines({4}, 5)); });
}

TEST(LawHiddenReads, AnInputIsChangedByAnOptimizer) {
  changed_input([](at::Tensor& input) {
    input.mutable_grad() = sines({4}, 3);
    torch::optim::SGD({input}, 0.5).step();
    input.mutable_grad().reset();
  });
}

TEST(LawHiddenReads, AChangeWithoutChecks) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        offset.mul_(3);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      {{"unchecked", {.determinism_check = DeterminismCheck::None, .name = "attacked"}}});
}

// More than a short memory of recent reads holds, each read, written and read again.
TEST(LawHiddenReads, ManyBuffersAreReadAndWrittenInTurnWithoutAlarm) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        Tensors buffers;
        for (int i = 0; i < 40; ++i) {
          buffers.push_back(sines({4}, i));
        }
        const auto fn = [buffers](at::Tensor h) {
          for (int round = 0; round < 3; ++round) {
            for (auto buffer : buffers) {
              h = h + buffer * 0.01;
              buffer.mul_(1.1);
              h = h * (buffer + 1).sin();
            }
          }
          return h.tanh();
        };
        way(fn, way(fn, x)).sum().backward();
        return joined({x.grad()}, buffers);
      },
      all_ways());
}

TEST(LawHiddenReads, ManyParametersAreReadInTurnWithoutAlarm) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4});
        Tensors weights;
        for (int i = 0; i < 40; ++i) {
          weights.push_back(sine_leaf({4}, i));
        }
        const auto fn = [weights](at::Tensor h) {
          for (int round = 0; round < 3; ++round) {
            for (const auto& weight : weights) {
              h = (h + weight).sin() * weight.detach();
            }
          }
          return h.tanh();
        };
        for (int step = 0; step < 2; ++step) {
          way(fn, x).sum().backward();
          torch::optim::SGD(weights, 0.1).step();
        }
        return joined({x.grad()}, weights);
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
