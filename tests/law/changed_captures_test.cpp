// Tensors that a region captures and that change between its forward and its backward: the plain
// result or an error that says so. What does not change never alarms: unchanged_captures_test.
#include "law/programs.h"

namespace reprise::testing {
namespace {

using Change = std::function<void(at::Tensor&)>;

/// A bias is not saved by autograd: plain training does not mind a change.
Program with_changed_bias(const Change& change) {
  return [change](const Way& way) {
    auto x = sine_leaf({4}), bias = sine_leaf({4}, 1);
    const auto y = way([bias](at::Tensor h) { return (h + bias).tanh(); }, x);
    {
      const torch::NoGradGuard no_grad;
      change(bias);
    }
    y.sum().backward();
    return Tensors{y.detach(), x.grad(), bias.grad(), bias.detach()};
  };
}

void changed_bias(const Change& change) {
  law_or_refused(with_changed_bias(change), kModified, all_ways());
}

/// What the region makes of the buffer's memory may lie where a temporary lay.
TEST(LawChangedCaptures, ABufferThatIsReadThroughADetachedAlias) {
  law_or_refused(
      [](const Way& way) {
        const auto x = sine_leaf({2, 2});
        const auto buffer = sines({2, 2}, 1), bias = sines({2}, 2);
        const auto y = way(
            [=](at::Tensor h) {
              const auto unused = h.mean();
              return torch::addmm(bias, buffer.detach().clone().set_requires_grad(true), h);
            },
            x);
        buffer.mul_(2);
        y.sum().backward();
        return Tensors{x.grad(), buffer};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, BiasByAdd) {
  changed_bias([](at::Tensor& bias) { bias.add_(1); });
}

TEST(LawChangedCaptures, BiasByCopy) {
  changed_bias([](at::Tensor& bias) { bias.copy_(sines({4}, 5)); });
}

TEST(LawChangedCaptures, BiasByZero) {
  changed_bias([](at::Tensor& bias) { bias.zero_(); });
}

TEST(LawChangedCaptures, BiasByAnOutArgument) {
  changed_bias([](at::Tensor& bias) {
    auto out = bias.detach();
    at::add_out(out, sines({4}, 2), sines({4}, 3));
  });
}

TEST(LawChangedCaptures, BiasByAViewMadeBefore) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), bias = sine_leaf({4}, 1);
        const auto first = bias.detach().narrow(0, 0, 1);
        const auto y = way([bias](at::Tensor h) { return (h + bias).tanh(); }, x);
        first.fill_(3);
        y.sum().backward();
        return Tensors{x.grad(), bias.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, BiasByAnIndex) {
  changed_bias([](at::Tensor& bias) { bias.index_put_({0}, 3.0); });
}

TEST(LawChangedCaptures, BiasByAForeachOperator) {
  changed_bias([](at::Tensor& bias) { at::_foreach_mul_({bias}, 2.0); });
}

// data() has a version counter of its own.
TEST(LawChangedCaptures, BiasByData) {
  changed_bias([](at::Tensor& bias) { bias.data().add_(1); });
}

TEST(LawChangedCaptures, BiasByDataInInferenceMode) {
  changed_bias([](at::Tensor& bias) {
    const auto data = bias.data();
    const c10::InferenceMode inference;
    data.add_(1);
  });
}

TEST(LawChangedCaptures, BiasBelowAutograd) {
  changed_bias([](at::Tensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    bias.add_(1);
  });
}

TEST(LawChangedCaptures, BiasBySetData) {
  changed_bias([](at::Tensor& bias) { bias.set_data(sines({4}, 5)); });
}

TEST(LawChangedCaptures, AParameterThatIsReplaced) {
  refused(
      [](const Way& way) {
        auto x = sine_leaf({3, 4}), first = sine_leaf({4, 4}, 1);
        const auto w = std::make_shared<at::Tensor>(first);
        const auto y = way([w](at::Tensor h) { return h.mm(*w).tanh(); }, x);
        *w = sine_leaf({4, 4}, 5);
        y.sum().backward();
        return Tensors{x.grad(), first.grad()};
      },
      "attacked");
}

// The region holds the argument's old data; the capture has the new ones.
TEST(LawChangedCaptures, AnArgumentThatIsCapturedTooBySetData) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        auto hidden = x.exp();
        const auto unchecked = [](CheckpointOptions& options) {
          options.determinism_check = DeterminismCheck::None;
        };
        const auto y = way.with(
            unchecked, [hidden](at::Tensor h) { return hidden.tanh() + h; }, hidden);
        hidden.set_data(sines({4}, 5));
        y.sum().backward();
        return Tensors{x.grad()};
      },
      "given other data");
}

TEST(LawChangedCaptures, BiasBySetDataOfAnotherShape) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        offset.set_data(sines({1}, 5));
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, BiasBySetOfAStorage) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        offset.set_(sines({4}, 5));
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, BufferByResize) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto y = way([offset](at::Tensor h) { return (h + offset).tanh(); }, x);
        offset.resize_({1});
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

// No operator writes: only values can tell.
TEST(LawChangedCaptures, BiasByAPointerUnderTheValueCheck) {
  law_or_refused(with_changed_bias([](at::Tensor& bias) { bias.data_ptr<float>()[0] = 5; }),
                 "[reprise]",
                 values_way());
}

TEST(LawChangedCaptures, BiasByAnOptimizerStep) {
  for (const bool is_adam : {false, true}) {
    changed_bias([is_adam](at::Tensor& bias) {
      bias.mutable_grad() = sines({4}, 3);
      if (is_adam) {
        torch::optim::Adam({bias}, 0.1).step();
      } else {
        torch::optim::SGD({bias}, 0.1).step();
      }
      bias.mutable_grad().reset();
    });
  }
}

/// What plain autograd saves, it checks itself.
void saved_capture(const at::Tensor& capture,
                   const std::function<at::Tensor(at::Tensor, const at::Tensor&)>& fn) {
  refused_as_plainly([&](const Way& way) {
    auto x = sine_leaf({4, 4});
    auto captured = capture.detach().clone().set_requires_grad(capture.requires_grad());
    const auto y = way([captured, fn](at::Tensor h) { return fn(h, captured).tanh(); }, x);
    {
      const torch::NoGradGuard no_grad;
      captured.zero_();
    }
    y.sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawChangedCaptures, AWeightIsRefusedAsPlainly) {
  saved_capture(sine_leaf({4, 4}), [](at::Tensor h, const at::Tensor& w) { return h.mm(w); });
}

TEST(LawChangedCaptures, AFrozenWeightIsRefusedAsPlainly) {
  saved_capture(sines({4, 4}), [](at::Tensor h, const at::Tensor& w) { return h.mm(w); });
}

TEST(LawChangedCaptures, AMaskIsRefusedAsPlainly) {
  saved_capture(sines({4, 4}) > 0,
                [](at::Tensor h, const at::Tensor& mask) { return h.masked_fill(mask, 0); });
}

TEST(LawChangedCaptures, IndicesAreRefusedAsPlainly) {
  saved_capture(torch::arange(4),
                [](at::Tensor h, const at::Tensor& rows) { return h.index_select(0, rows); });
}

TEST(LawChangedCaptures, LayerNormParametersAreRefusedAsPlainly) {
  saved_capture(sine_leaf({4}), [](at::Tensor h, const at::Tensor& weight) {
    return torch::layer_norm(h, {4}, weight);
  });
}

/// What plain autograd does not save. `fn(h, captured)` must not save `captured`.
void unsaved_capture(const at::Tensor& capture,
                     const std::function<at::Tensor(at::Tensor, const at::Tensor&)>& fn) {
  law_or_refused(
      [&](const Way& way) {
        auto x = sine_leaf({4, 4});
        auto captured = capture.detach().clone().set_requires_grad(capture.requires_grad());
        const auto y = way([captured, fn](at::Tensor h) { return fn(h, captured).tanh(); }, x);
        {
          const torch::NoGradGuard no_grad;
          captured.copy_(captured.flip(0));
        }
        y.sum().backward();
        return Tensors{x.grad(), captured.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, AFrozenWeightThatNoGradientNeeds) {
  unsaved_capture(sines({4, 4}, 2), [](at::Tensor h, const at::Tensor& w) {
    return h * w.mm(w).sum();  // only the sum is saved
  });
}

TEST(LawChangedCaptures, AnAdditiveMask) {
  unsaved_capture(sines({4, 4}, 2),
                  [](at::Tensor h, const at::Tensor& mask) { return (h + mask).softmax(-1); });
}

TEST(LawChangedCaptures, AnEmbedding) {
  unsaved_capture(sine_leaf({4, 4}, 2), [](at::Tensor h, const at::Tensor& table) {
    return h + torch::embedding(table, torch::tensor({1, 0, 3, 1}));
  });
}

TEST(LawChangedCaptures, AThreshold) {
  unsaved_capture(sines({4, 4}, 2), [](at::Tensor h, const at::Tensor& threshold) {
    return torch::where(h > threshold, h * 2, h.sin());
  });
}

TEST(LawChangedCaptures, ANumberReadByItem) {
  unsaved_capture(torch::tensor({2.0F, 3.0F}), [](at::Tensor h, const at::Tensor& scale) {
    return h * scale[0].item<double>();
  });
}

TEST(LawChangedCaptures, ATeacherUnderNoGrad) {
  unsaved_capture(sines({4, 4}, 2), [](at::Tensor h, const at::Tensor& teacher) {
    at::Tensor target;
    {
      const torch::NoGradGuard no_grad;
      target = h.mm(teacher).tanh();
    }
    return h * target;
  });
}

TEST(LawChangedCaptures, ABufferReadByAnInnerRegion) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), offset = sines({4}, 1);
        const auto inner = [offset](at::Tensor h) { return (h + offset).tanh(); };
        const auto y = way([way, inner](at::Tensor h) { return way(inner, h.sin()).exp(); }, x);
        offset.add_(1);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, AViewOfAChangedBase) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4}), base = sines({8}, 1);
        const auto view = base.narrow(0, 2, 4);
        const auto y = way([view](at::Tensor h) { return (h + view).tanh(); }, x);
        base.mul_(3);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      kModified,
      all_ways());
}

TEST(LawChangedCaptures, AModuleWhoseBiasIsReplaced) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        torch::nn::Linear linear(4, 4);
        fill_with_sines(*linear);
        const auto y = way([linear](at::Tensor h) mutable { return linear(h).tanh(); }, x);
        const auto old = linear->bias;
        linear->bias = sine_leaf({4}, 9);
        y.sum().backward();
        return Tensors{x.grad(), linear->weight.grad(), old.grad(), linear->bias.grad()};
      },
      "[reprise]",
      all_ways());
}

// A reentrant region has nothing to compare but its results.
TEST(LawChangedCaptures, AModuleThatIsSwitchedToEvaluation) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({8, 4});
        torch::nn::BatchNorm1d norm(4);
        const auto y = way([norm](at::Tensor h) mutable { return norm(h).tanh(); }, x);
        norm->eval();
        y.square().sum().backward();
        return joined({x.grad()}, contents_of(*norm));
      },
      "[reprise]");
}

TEST(LawChangedCaptures, AParameterThatIsFrozenAfterForward) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4}), w = sine_leaf({4, 4}, 1);
        const auto y = way([w](at::Tensor h) { return h.mm(w).tanh(); }, x);
        w.set_requires_grad(false);
        y.sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      "[reprise]",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
