// Writes to buffers by operators of all kinds: layers with running statistics, out= variants,
// lists, custom operators, sparse tensors. Each happens once.
#include "law/law.h"

#include <torch/library.h>

#include <memory>

namespace reprise::testing {
namespace {

/// `write(buffer, h)` runs in a region that reads the buffer before and after it.
template <class Write>
Program updating(Write write, at::ScalarType dtype = at::kFloat) {
  return [write, dtype](const Way& way) {
    const auto buffer = torch::arange(1, 5).to(dtype);
    Seen seen;
    for (int step = 0; step < 2; ++step) {
      const auto x = leaf({4});
      const auto fn = [write, buffer](at::Tensor h) {
        h = h.exp() * buffer.detach().to(at::kFloat, false, /*copy=*/true);
        write(buffer, h.detach());
        return h.sin() * buffer.detach().to(at::kFloat, false, /*copy=*/true);
      };
      way(fn, way(fn, x)).sum().backward();
      seen.push_back(x.grad());
    }
    seen.push_back(buffer);
    return seen;
  };
}

TEST(LawBufferWrites, ThroughData) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        buffer.data().mul_(0.9).add_(h);
        buffer.variable_data().narrow(0, 0, 2).mul_(1.1);
      }),
      all_ways());
}

TEST(LawBufferWrites, ThroughTheDataOfAParameter) {
  law(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto fn = [weight](at::Tensor h) {
          h = h.exp() * weight.detach().clone();
          weight.data().mul_(0.9).add_(h.detach());
          return h.sin() * weight.detach().clone();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), weight.detach()};
      },
      all_ways());
}

TEST(LawBufferWrites, ForeachOperators) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        auto parts = buffer.split(2);
        at::_foreach_mul_(parts, 0.9);
        at::_foreach_add_(parts, h.split(2));
      }),
      all_ways());
}

TEST(LawBufferWrites, IndexedWrites) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        buffer.index_put_({torch::tensor({0, 2})}, h.narrow(0, 0, 2), /*accumulate=*/true);
        buffer.index_add_(0, torch::tensor({1}), h.narrow(0, 1, 1));
        buffer.scatter_(0, torch::tensor({3}), h.narrow(0, 3, 1));
        buffer.masked_fill_(h > 2, 0.5);
      }),
      all_ways());
}

TEST(LawBufferWrites, OutVariants) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        at::add_out(buffer, buffer.clone(), h);
        at::mul_out(buffer, buffer, torch::full({4}, 0.5));
      }),
      all_ways());
}

TEST(LawBufferWrites, OutVariantsIntoAViewAndThroughACopy) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        auto view = buffer.narrow(0, 1, 2);
        at::exp_out(view, h.narrow(0, 1, 2) * 0.1);
        auto grid = buffer.view({2, 2});
        at::mm_out(grid, grid.clone(), h.reshape({2, 2}));
      }),
      all_ways());
}

TEST(LawBufferWrites, Integers) {
  law(updating([](at::Tensor buffer, const at::Tensor&) { buffer.add_(1).bitwise_xor_(5); },
               at::kLong),
      all_ways());
}

TEST(LawBufferWrites, HalfPrecision) {
  law(updating(
          [](at::Tensor buffer, const at::Tensor& h) { buffer.lerp_(h.to(at::kBFloat16), 0.1); },
          at::kBFloat16),
      all_ways());
}

TEST(LawBufferWrites, ComplexParts) {
  law(
      [](const Way& way) {
        const auto buffer = torch::ones({4}, torch::kComplexFloat);
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.exp() * torch::real(buffer).clone();
          torch::imag(buffer).add_(h.detach());
          torch::view_as_real(buffer).select(1, 0).mul_(0.9);
          return h.sin() * buffer.abs();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), torch::view_as_real(buffer)};
      },
      all_ways());
}

TEST(LawBufferWrites, MovingAverages) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        const torch::NoGradGuard no_grad;
        buffer.lerp_(h, 0.1);
        buffer.addcmul_(h, h, 0.01).clamp_(0, 5);
      }),
      all_ways());
}

TEST(LawBufferWrites, CountersAndCopies) {
  law(updating([](at::Tensor buffer, const at::Tensor& h) {
        buffer += 1;
        buffer.slice(0, 2).copy_(h.slice(0, 0, 2));
        buffer[0] = 7;
      }),
      all_ways());
}

TEST(LawBufferWrites, FillZeroAndSwapOfHalves) {
  law(updating([](at::Tensor buffer, const at::Tensor&) {
        const auto first = buffer.narrow(0, 0, 2).clone();
        buffer.narrow(0, 0, 2).copy_(buffer.narrow(0, 2, 2));
        buffer.narrow(0, 2, 2).copy_(first);
        buffer.narrow(0, 1, 1).zero_().fill_(2);
      }),
      all_ways());
}

template <class Norm>
Program normalizing(const Norm& make, at::IntArrayRef sizes) {
  return [make, shape = sizes.vec()](const Way& way) {
    auto norm = make();
    const auto x = leaf(shape);
    auto fn = [norm](at::Tensor h) mutable { return norm->forward(h.exp()).sin(); };
    way(fn, way(fn, x)).sum().backward();
    Seen seen = norm->buffers();
    for (const auto& buffer : {x.grad(), norm->weight.grad()}) {
      seen.push_back(buffer);
    }
    return seen;
  };
}

// One layer for both regions, so the reentrant variant may sum the gradients in another order.
TEST(LawBufferWrites, BatchNorm) {
  law(normalizing([] { return torch::nn::BatchNorm1d(4); }, {3, 4}));
}

TEST(LawBufferWrites, BatchNormWithACumulativeAverage) {
  law(normalizing(
      [] { return torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(2).momentum(std::nullopt)); },
      {2, 2, 2, 2}));
}

TEST(LawBufferWrites, InstanceNorm) {
  law(normalizing(
      [] {
        return torch::nn::InstanceNorm1d(
            torch::nn::InstanceNormOptions(4).affine(true).track_running_stats(true));
      },
      {2, 4, 3}));
}

// The renormalization of an embedding writes its weight.
TEST(LawBufferWrites, EmbeddingWithAMaximalNorm) {
  law(
      [](const Way& way) {
        const auto table = leaf({5, 4}), x = leaf({4});
        const auto fn = [table](at::Tensor h) {
          const auto rows = torch::tensor({1, 3, 1});
          {
            const torch::NoGradGuard no_grad;
            at::embedding_renorm_(const_cast<at::Tensor&>(table), rows, 0.5, 2);
          }
          return (torch::embedding(table, rows).sum(0) * h.exp()).sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), table.grad(), table.detach()};
      },
      all_ways());
}

at::Tensor count_and_scale(const at::Tensor& x, at::Tensor& count) {
  count.add_(1);
  return x * count.item<float>();
}

// Kernels write below autograd, where only the schema tells.
TORCH_LIBRARY(law_buffer_writes_test, m) {
  m.def("count_(Tensor x, Tensor(a!) count) -> Tensor");
  m.def("count_composite_(Tensor x, Tensor(a!) count) -> Tensor", count_and_scale);
}
TORCH_LIBRARY_IMPL(law_buffer_writes_test, CPU, m) {
  m.impl("count_", count_and_scale);
}

Program counting_with(const std::string& name) {
  return [name](const Way& way) {
    const auto x = leaf({4});
    const auto count = torch::zeros({});
    const auto fn = [name, count](at::Tensor h) {
      auto target = count;
      const auto scaled = c10::Dispatcher::singleton()
                              .findSchemaOrThrow(("law_buffer_writes_test::" + name).c_str(), "")
                              .typed<at::Tensor(const at::Tensor&, at::Tensor&)>()
                              .call(h.detach(), target);
      return (h.exp() * scaled).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), count};
  };
}

TEST(LawBufferWrites, ACustomOperatorThatDeclaresItsWrite) {
  law(counting_with("count_"), all_ways());
}

TEST(LawBufferWrites, ACustomCompositeThatDeclaresItsWrite) {
  law(counting_with("count_composite_"), all_ways());
}

TEST(LawBufferWrites, SparseBuffers) {
  law_or_refused(
      [](const Way& way) {
        const auto buffer = torch::eye(4).to_sparse();
        const auto x = leaf({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.tanh() * buffer.to_dense().sum(0);
          auto target = buffer;
          target.mul_(2);
          target.add_(torch::eye(4).to_sparse());
          return h.sin() * buffer.to_dense().sum(0);
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), buffer.to_dense()};
      },
      "attacked",
      all_ways());
}

struct TwoTensors {
  at::Tensor a = torch::full({4}, 1.5), b = torch::full({4}, 0.5);
};

// A C++ variable: documented as the program's own to restore, so every run exchanges them. What the
// region reads then differs, which must not pass silently.
TEST(LawBufferWrites, TensorsExchangedInASharedStruct) {
  law_or_refused(
      [](const Way& way) {
        const auto state = std::make_shared<TwoTensors>();
        const auto x = leaf({4});
        const auto fn = [state](at::Tensor h) {
          std::swap(state->a, state->b);
          return (h.exp() * state->a).sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), state->a, state->b};
      },
      "attacked",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
