// Programs of every class on a GPU, with deterministic algorithms. Set
// CUBLAS_WORKSPACE_CONFIG=:4096:8.
#include "law/programs.h"
#include "support/devices.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <atomic>
#include <thread>

namespace reprise::testing {
namespace {

at::Tensor on_gpu(at::IntArrayRef sizes, double phase = 0) {
  return sines(sizes, phase).to(torch::kCUDA);
}

at::Tensor gpu_leaf(at::IntArrayRef sizes, double phase = 0) {
  return on_gpu(sizes, phase).set_requires_grad(true);
}

at::Generator gpu_generator() {
  return at::detail::getCUDAHooks().getDefaultGenerator(0);
}

class LawGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    REPRISE_REQUIRE_CUDA();
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  }
  /// The law, for the state of the GPU's generator too.
  static void gpu_law(const Program& program, const std::vector<Way>& others = all_ways()) {
    law(
        [&program](const Way& way) {
          auto seen = program(way);
          seen.push_back(gpu_generator().get_state());
          return seen;
        },
        others);
  }
};

TEST_F(LawGpu, DropoutAndNoise) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({64, 32});
    const auto y = way(
        [](const at::Tensor& h) {
          const auto noise = torch::randn_like(h) + torch::rand({64, 32}, h.options());
          return torch::dropout(h * noise, 0.3, true).tanh();
        },
        x);
    y.sum().backward();
    return Seen{y, x.grad()};
  });
}

TEST_F(LawGpu, AGeneratorThatIsGivenOrCaptured) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({64});
    auto own = gpu_generator().clone();
    own.set_current_seed(3);
    const auto y = way(
        [own](const at::Tensor& h) {
          return (h * torch::rand({64}, own, h.options())).sin() * torch::rand_like(h);
        },
        x);
    y.sum().backward();
    return Seen{y, x.grad(), torch::rand({4}, own, x.options())};
  });
}

// Backward meets the numbers of forward, whatever the other thread draws.
TEST_F(LawGpu, AnotherThreadDrawsMeanwhile) {
  std::atomic<bool> is_over = false;
  std::thread other([&is_over] {
    while (!is_over) {
      torch::rand({16}, torch::kCUDA);
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_NO_THROW({
      const auto x = torch::ones({256}, torch::kCUDA).set_requires_grad(true);
      const auto y = checkpoint([](const at::Tensor& h) { return torch::rand_like(h) * h * h; }, x);
      y.sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), 2 * y.detach()));
    });
  }
  is_over = true;
  other.join();
}

TEST_F(LawGpu, SeedingInside) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({64});
    const auto y = way(
        [](const at::Tensor& h) {
          torch::manual_seed(11);
          return torch::dropout(h.exp(), 0.5, true).sin();
        },
        x);
    y.sum().backward();
    return Seen{y, x.grad(), torch::rand({4}, x.options())};
  });
}

TEST_F(LawGpu, BuffersAreWrittenOnce) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({8, 4});
    const auto mean = torch::zeros({4}, torch::kCUDA), variance = torch::ones({4}, torch::kCUDA);
    const auto counter = torch::zeros({}, x.options().dtype(torch::kLong));
    const auto y = way(
        [=](const at::Tensor& h) {
          counter.add_(1);
          return torch::batch_norm(h, {}, {}, mean, variance, true, 0.1, 1e-5, false).tanh();
        },
        x);
    y.square().sum().backward();
    return Seen{y, x.grad(), mean, variance, counter};
  });
}

TEST_F(LawGpu, ABufferIsWrittenInInferenceMode) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({4});
    const auto buffer = torch::ones({4}, torch::kCUDA);
    const auto y = way(
        [buffer](const at::Tensor& h) {
          {
            const c10::InferenceMode inference;
            buffer.mul_(2);
          }
          return (h * buffer.clone()).exp();
        },
        x);
    y.sum().backward();
    return Seen{x.grad(), buffer};
  });
}

TEST_F(LawGpu, AnOuterBufferIsWrittenByInnerRegions) {
  gpu_law(
      [](const Way& way) {
        const auto x = gpu_leaf({4});
        const auto y = way(
            [&way](const at::Tensor& h) {
              const auto buffer = torch::zeros({4}, h.options());
              auto state = h;
              for (int i = 0; i < 3; ++i) {
                state = way(
                    [](const at::Tensor& s, const at::Tensor& b) {
                      b.add_(1);
                      return (s * b.clone()).sin();
                    },
                    state,
                    buffer);
              }
              return state;
            },
            x);
        y.sum().backward();
        return Seen{x.grad()};
      },
      ways());
}

TEST_F(LawGpu, HooksInsideRunOnce) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({4});
    const auto y = way(
        [](const at::Tensor& h) {
          h.register_hook([](const at::Tensor& g) { return -2 * g; });
          return h.exp();
        },
        x);
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST_F(LawGpu, ABackwardCallInside) {
  gpu_law(
      [](const Way& way) {
        const auto x = gpu_leaf({4});
        const auto w = gpu_leaf({4}, 1);
        const auto y = way(
            [w](const at::Tensor& h) {
              w.exp().sum().backward();
              return (h * w).sin();
            },
            x);
        y.sum().backward();
        return Seen{x.grad(), w.grad()};
      },
      ways());
}

TEST_F(LawGpu, AViewOfAKeptResultIsWritten) {
  gpu_law(
      [](const Way& way) {
        const auto x = gpu_leaf({4, 4});
        const auto y = way([](const at::Tensor& h) { return h.sin().unsafe_chunk(2, 1)[0]; }, x);
        y.mul_(3);
        y.sum().backward();
        return Seen{y.detach(), x.grad()};
      },
      {{"policy", {.policy = policy::save_ops({"aten::sin"})}}});
}

TEST_F(LawGpu, ACapturedBiasThatChangesIsRefused) {
  refused(
      [](const Way& way) {
        const auto x = gpu_leaf({4});
        const auto bias = torch::ones({4}, torch::kCUDA);
        const auto y = way([bias](const at::Tensor& h) { return (h + bias).exp(); }, x);
        bias.add_(1);
        y.sum().backward();
        return Seen{x.grad()};
      },
      kModified);
}

TEST_F(LawGpu, APreallocatedOutput) {
  gpu_law(
      [](const Way& way) {
        const auto x = gpu_leaf({4});
        const auto out = torch::zeros({2, 4}, torch::kCUDA);
        way(
            [out](const at::Tensor& h) {
              out[1].copy_(h.exp());
              return h * 2;
            },
            x)
            .sum()
            .backward({}, /*retain_graph=*/true);
        out.square().sum().backward();
        return Seen{x.grad(), out.detach()};
      },
      ways());
}

TEST_F(LawGpu, AutocastAndAttention) {
  gpu_law([](const Way& way) {
    const auto x = gpu_leaf({1, 2, 16, 32});
    const auto w = gpu_leaf({32, 32}, 1);
    const AutocastScope autocast(at::kCUDA, at::kBFloat16);
    const auto y = way(
        [w](const at::Tensor& h) {
          const auto q = torch::matmul(h, w);
          return torch::scaled_dot_product_attention(q, q, q, {}, 0.0, true).to(torch::kFloat);
        },
        x);
    y.sum().backward();
    return Seen{y.detach(), x.grad(), w.grad()};
  });
}

TEST_F(LawGpu, LayersWithCudnn) {
  gpu_law([](const Way& way) {
    torch::nn::Sequential model(torch::nn::Conv2d(3, 8, 3),
                                torch::nn::BatchNorm2d(8),
                                torch::nn::ReLU(),
                                torch::nn::Conv2d(8, 4, 3));
    fill_with_sines(*model);
    model->to(torch::kCUDA);
    const auto x = gpu_leaf({2, 3, 12, 12});
    way([model](const at::Tensor& h) { return model.ptr()->forward(h); }, x)
        .square()
        .sum()
        .backward();
    return joined(contents_of(*model), {x.grad()});
  });
}

TEST_F(LawGpu, ValuesAreComparedInEveryType) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    gpu_law(
        [dtype](const Way& way) {
          const auto x = on_gpu({700, 800}).to(dtype).set_requires_grad(true);
          const auto y = way([](const at::Tensor& h) { return h.t().exp() * h.t().sin(); }, x);
          y.sum().backward();
          return Seen{x.grad()};
        },
        ways());
  }
}

}  // namespace
}  // namespace reprise::testing
