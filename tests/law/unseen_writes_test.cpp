// Writes to buffers that are easy to miss: below autograd, under inference mode, by exchanging the
// storage, by another thread, through memory that two storages share. A recompute must not repeat
// them.
#include "law/law.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <array>
#include <memory>
#include <thread>

namespace reprise::testing {
namespace {

/// `write(buffer, h)` runs in a region that reads the buffer before and after. Two regions, two
/// steps.
template <class Write>
Program writing(Write write, bool reads = true) {
  return [write, reads](const Way& way) {
    const auto buffer = torch::linspace(0, 1, 4);
    Seen seen;
    for (int step = 0; step < 2; ++step) {
      const auto x = leaf({4});
      const auto fn = [write, reads, buffer](at::Tensor h) {
        h = reads ? h.tanh() * buffer.detach().clone() : h.tanh();
        write(buffer, h.detach());
        return reads ? h.sin() * buffer.detach().clone() : h.sin();
      };
      way(fn, way(fn, x)).sum().backward();
      seen.push_back(x.grad());
    }
    seen.push_back(buffer);
    return seen;
  };
}

// Such writes leave no trace in version counters, so a region may refuse them.
TEST(LawUnseenWrites, BelowAutograd) {
  law_or_refused(writing([](at::Tensor buffer, const at::Tensor& h) {
                   const at::AutoDispatchBelowADInplaceOrView guard;
                   buffer.mul_(0.9).add_(h);
                 }),
                 "below autograd",
                 all_ways());
}

TEST(LawUnseenWrites, BelowAutogradAndNotRead) {
  law_or_refused(writing(
                     [](at::Tensor buffer, const at::Tensor& h) {
                       const at::AutoDispatchBelowADInplaceOrView guard;
                       buffer.mul_(0.9).add_(h);
                     },
                     false),
                 "below autograd",
                 all_ways());
}

TEST(LawUnseenWrites, BelowAutogradOnlyPartly) {
  law(writing([](at::Tensor buffer, const at::Tensor& h) {
        const at::AutoDispatchBelowAutograd guard;
        buffer.narrow(0, 1, 2).copy_(h.narrow(0, 0, 2));
      }),
      all_ways());
}

struct WritingFunction : torch::autograd::Function<WritingFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            at::Tensor buffer) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({x});
    const auto result = x * buffer.sum();
    context->saved_data["sum"] = buffer.sum().item<double>();
    buffer.mul_(0.5).add_(x.detach());
    return result;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const auto x = context->get_saved_variables()[0];
    return {grads[0] * context->saved_data["sum"].toDouble() * x.cos(), at::Tensor()};
  }
};

TEST(LawUnseenWrites, InTheForwardOfACustomFunction) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto buffer = torch::linspace(0, 1, 4);
    const auto x = leaf({4});
    const auto fn = [buffer](at::Tensor h) {
      return WritingFunction::apply(h.exp(), buffer).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), buffer};
  });
}

TEST(LawUnseenWrites, SetDataOfAnotherTensor) {
  law_or_refused(writing([](at::Tensor buffer, const at::Tensor& h) {
                   buffer.set_data(buffer.detach() * 0.9 + h);
                 }),
                 "attacked",
                 all_ways());
}

TEST(LawUnseenWrites, ParameterScaledThroughItsData) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({3, 4}), w = sine_leaf({4, 4}, 1);
        const auto fn = [w](at::Tensor h) {
          w.set_data(w.data() * 0.5);
          return h.mm(w).tanh();
        };
        way(fn, x).sum().backward();
        return Tensors{x.grad(), w.grad(), w.detach()};
      },
      all_ways());
}

/// Autograd refers to tensors that are no results by themselves: plain gradients see the new data.
TEST(LawUnseenWrites, OtherDataAfterItWasSaved) {
  const auto saved_first = [](const auto& of) {
    law_or_refused(
        [of](const Way& way) {
          const auto x = leaf({2, 2}), w = leaf({2, 2}), h = x.detach().softmax(-1);
          way([=](at::Tensor input) { return of(input, h, w); }, x.exp()).sum().backward();
          return Seen{x.grad(), w.grad(), h};
        },
        "after an operator has saved it",
        all_ways());
  };
  saved_first([](const at::Tensor&, at::Tensor captured, const at::Tensor& w) {
    const auto y = captured * w;
    captured.set_data(w.detach() * 2);
    return y;
  });
  saved_first([](const at::Tensor& input, const at::Tensor&, at::Tensor w) {
    const auto y = input * w;
    w.set_data(w.detach() * 2);
    return y;
  });
  saved_first([](const at::Tensor& input, const at::Tensor&, const at::Tensor& w) {
    auto made = input + 1;
    const auto y = made * w;
    made.set_data(w.detach() * 2);
    return y;
  });
  saved_first([](at::Tensor input, const at::Tensor&, const at::Tensor& w) {
    const auto y = input * w;
    input.set_data(w.detach() * 2);
    return y;
  });
}

TEST(LawUnseenWrites, SetDataAndNotRead) {
  law_or_refused(writing([](at::Tensor buffer,
                            const at::Tensor& h) { buffer.set_data(buffer.detach() * 0.9 + h); },
                         false),
                 "attacked",
                 all_ways());
}

TEST(LawUnseenWrites, SetToAStorage) {
  law_or_refused(writing([](at::Tensor buffer, const at::Tensor& h) {
                   const auto next = buffer * 0.9 + h;
                   buffer.set_(next.storage(), 0, {4}, {1});
                 }),
                 "attacked",
                 all_ways());
}

TEST(LawUnseenWrites, SetToATensor) {
  law_or_refused(
      writing([](at::Tensor buffer, const at::Tensor& h) { buffer.set_(buffer * 0.9 + h); }),
      "attacked",
      all_ways());
}

TEST(LawUnseenWrites, SetToATensorAndNotRead) {
  law_or_refused(
      writing([](at::Tensor buffer, const at::Tensor& h) { buffer.set_(buffer * 0.9 + h); }, false),
      "attacked",
      all_ways());
}

// The buffer grows; the region reads all of it.
TEST(LawUnseenWrites, Resize) {
  law_or_refused(
      [](const Way& way) {
        const auto buffer = torch::ones({2});
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          const auto size = buffer.numel();
          h = h.exp() * buffer.detach().sum();
          buffer.resize_({size + 2}).fill_(static_cast<double>(size));
          return h.sin() * buffer.detach().sum();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      "attacked",
      all_ways());
}

TEST(LawUnseenWrites, ResizeToFewerElements) {
  law_or_refused(
      [](const Way& way) {
        const auto buffer = torch::arange(8, torch::kFloat);
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.exp() * buffer.detach().sum();
          buffer.resize_({buffer.numel() - 2});
          return h.sin();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      "attacked",
      all_ways());
}

/// `change` alters the shape of a captured matrix in place.
template <class Change>
Program reshaping(Change change) {
  return [change](const Way& way) {
    const auto matrix = torch::arange(6, torch::kFloat).reshape({2, 3});
    const auto x = leaf({4});
    const auto fn = [change, matrix](at::Tensor h) {
      const auto before = matrix.detach().reshape({-1}).narrow(0, 0, 4).clone();
      change(matrix);
      const auto after = matrix.detach().reshape({-1}).narrow(0, 0, 4).clone();
      return (h.exp() * before).sin() * after;
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), matrix};
  };
}

TEST(LawUnseenWrites, TransposeInPlace) {
  law_or_refused(reshaping([](at::Tensor matrix) { matrix.t_(); }), "attacked", all_ways());
  law_or_refused(
      reshaping([](at::Tensor matrix) { matrix.transpose_(0, 1); }), "attacked", all_ways());
}

TEST(LawUnseenWrites, TransposeInPlaceOfWhatIsSavedAfterwards) {
  // The recompute transposes it again, which must not look like a change to the product's node.
  law([](const Way& way) {
    const auto matrix = torch::arange(4, torch::kFloat).reshape({2, 2}).clone();
    const auto x = leaf({2, 2});
    const auto fn = [matrix](at::Tensor h) {
      const torch::NoGradGuard no_grad;
      matrix.t_();
      const torch::AutoGradMode grad(true);
      return h.exp().sin();
    };
    const auto y = way(fn, x);
    const auto product = torch::mm(matrix, x).sum();
    y.sum().backward();
    product.backward();
    return Seen{x.grad(), matrix};
  });
}

TEST(LawUnseenWrites, UnsqueezeInPlace) {
  law_or_refused(
      reshaping([](at::Tensor matrix) { matrix.unsqueeze_(0); }), "attacked", all_ways());
}

TEST(LawUnseenWrites, AsStridedInPlace) {
  law_or_refused(reshaping([](at::Tensor matrix) { matrix.as_strided_({5}, {1}, 1); }),
                 "attacked",
                 all_ways());
}

TEST(LawUnseenWrites, InferenceTensorsUnderInferenceMode) {
  law(
      [](const Way& way) {
        at::Tensor buffer;
        {
          const c10::InferenceMode inference;
          buffer = torch::linspace(0, 1, 4);
        }
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.tanh() * buffer.clone().detach().sum().item<float>();
          {
            const c10::InferenceMode inference;
            buffer.mul_(0.9).add_(h.detach());
          }
          return h.sin() * buffer.sum().item<float>();
        };
        way(fn, way(fn, x)).sum().backward();
        const c10::InferenceMode inference;
        return Seen{x.grad().clone(), buffer.clone()};
      },
      all_ways());
}

TEST(LawUnseenWrites, OrdinaryTensorsUnderInferenceMode) {
  law(writing([](at::Tensor buffer, const at::Tensor& h) {
        const c10::InferenceMode inference;
        buffer.mul_(0.9).add_(h);
      }),
      all_ways());
}

// Another thread is outside of the region: what it writes can only be noticed, not undone.
TEST(LawUnseenWrites, ByAThreadThatTheRegionStarts) {
  law_or_refused(writing([](at::Tensor buffer, const at::Tensor& h) {
                   std::thread([&] { buffer.mul_(0.9).add_(h); }).join();
                 }),
                 "attacked",
                 all_ways());
}

TEST(LawUnseenWrites, TwoStoragesOverOneMemory) {
  law_or_refused(
      [](const Way& way) {
        const auto memory = std::make_shared<std::array<float, 4>>();
        memory->fill(1);
        const auto keep = [memory](void*) {};
        const auto a = torch::from_blob(memory->data(), {4}, keep);
        const auto b = torch::from_blob(memory->data(), {4}, keep);
        const auto x = leaf({4});
        const auto fn = [a, b](at::Tensor h) {
          h = h.tanh() * a.clone();
          b.mul_(0.9).add_(h.detach());
          return h.sin() * a.clone();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), a.clone()};
      },
      "attacked",
      all_ways());
}

TEST(LawUnseenWrites, AStorageMadeInsideOverMemoryFromOutside) {
  law_or_refused(
      [](const Way& way) {
        const auto buffer = torch::ones({4});
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.tanh() * buffer.clone();
          torch::from_blob(buffer.data_ptr(), {4}).mul_(0.9).add_(h.detach());
          return h.sin() * buffer.clone();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer};
      },
      "attacked",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
