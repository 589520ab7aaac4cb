// Settings of the process or the thread that change between a region's forward and its backward:
// the recompute runs under forward's settings, or an error names the setting.
#include "law/programs.h"

#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>

#include <cfenv>
#include <thread>

namespace reprise::testing {
namespace {

using Step = std::function<at::Tensor(at::Tensor)>;

/// Forward as it is, backward after `change`; `undo` always runs.
Program settings_changed(const Step& fn,
                         const at::Tensor& input,
                         const std::function<void()>& change,
                         const std::function<void()>& undo) {
  return [=](const Way& way) {
    const Restored<int> undone(0, [undo](int) { undo(); });
    auto x = input.detach().clone().set_requires_grad(true);
    const auto y = way(fn, x);
    const auto loss = y.sum();
    change();
    loss.backward();
    return Tensors{y.detach(), x.grad()};
  };
}

at::Tensor tanh_of_product(at::Tensor h) {
  return h.mm(h.t()).tanh();
}

/// The sum of many numbers depends on how threads share the work.
at::Tensor scaled_by_sum(at::Tensor h) {
  return (h * h.sum()).tanh();
}

TEST(LawSettings, MoreThreadsInBackward) {
  law_or_refused(settings_changed(
                     scaled_by_sum,
                     sines({200'000}),
                     [] { at::set_num_threads(3); },
                     [] { at::set_num_threads(1); }),
                 "threads",
                 all_ways());
}

TEST(LawSettings, FewerThreadsInBackward) {
  law_or_refused(
      [](const Way& way) {
        const Restored<int> undone(at::get_num_threads(), at::set_num_threads);
        at::set_num_threads(3);
        auto x = sine_leaf({200'000});
        const auto y = way(scaled_by_sum, x);
        at::set_num_threads(1);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      "threads",
      all_ways());
}

TEST(LawSettings, ThreadsChangedAndChangedBack) {
  law(
      [](const Way& way) {
        const Restored<int> undone(at::get_num_threads(), at::set_num_threads);
        auto x = sine_leaf({200'000});
        const auto y = way(scaled_by_sum, x);
        at::set_num_threads(3);
        const auto elsewhere = sines({200'000}).sum();
        at::set_num_threads(1);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawSettings, TheSameThreadsSeenFromAnotherThread) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({200'000});
        const auto loss = way(scaled_by_sum, x).sum();
        std::thread([loss] { loss.backward(); }).join();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawSettings, ThreadsChangedInsideARegion) {
  law_or_refused(
      [](const Way& way) {
        const Restored<int> undone(at::get_num_threads(), at::set_num_threads);
        auto x = sine_leaf({200'000});
        const auto y = way(
            [](at::Tensor h) {
              const auto before = h * h.sum();
              at::set_num_threads(3);
              return (before * h.sum()).tanh();
            },
            x);
        y.sum().backward();
        return Tensors{x.grad()};
      },
      "threads",
      all_ways());
}

/// Denormal inside, normal outside: gone if the processor flushes denormals to zero.
at::Tensor through_denormals(at::Tensor h) {
  return ((h * 1e-39) * 1e38).tanh();
}

void flush(bool enabled) {
  at::globalContext().setFlushDenormal(enabled);
}

TEST(LawSettings, DenormalsAreFlushedInBackward) {
  law(settings_changed(
          through_denormals, sines({6}, 1), [] { flush(true); }, [] { flush(false); }),
      all_ways());
}

TEST(LawSettings, DenormalsAreFlushedInForward) {
  law(
      [](const Way& way) {
        const Restored<bool> undone(false, flush);
        auto x = sine_leaf({6}, 1);
        flush(true);
        const auto loss = way(through_denormals, x).sum();
        flush(false);
        loss.backward();
        return Tensors{loss.detach(), x.grad()};
      },
      all_ways());
}

TEST(LawSettings, DenormalsAreFlushedOnTheThreadOfForwardOnly) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({6}, 1);
        at::Tensor loss;
        std::thread([&] {
          flush(true);
          loss = way(through_denormals, x).sum();
        }).join();
        loss.backward();
        return Tensors{loss.detach(), x.grad()};
      },
      all_ways());
}

TEST(LawSettings, ARecomputeLeavesTheCallersFlushing) {
  law(
      [](const Way& way) {
        const Restored<bool> undone(false, flush);
        auto x = sine_leaf({6}, 1);
        const auto loss = way(through_denormals, x).sum();
        flush(true);
        loss.backward();
        return Tensors{x.grad(), through_denormals(sines({6}))};
      },
      all_ways());
}

TEST(LawSettings, DenormalsAreFlushedInsideTheRegion) {
  law_or_refused(
      [](const Way& way) {
        const Restored<bool> undone(false, flush);
        auto x = sine_leaf({6}, 1);
        const auto y = way(
            [](at::Tensor h) {
              h = through_denormals(h);
              flush(true);
              return through_denormals(h + 1);
            },
            x);
        y.sum().backward();
        return Tensors{y.detach(), x.grad(), through_denormals(sines({6}))};
      },
      "denormal",
      all_ways());
}

at::Tensor divided(at::Tensor h) {
  return ((h + 2) / 3).log() / 7;
}

TEST(LawSettings, RoundingChangesInBackward) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    law_or_refused(settings_changed(
                       divided,
                       sines({64}),
                       [mode] { std::fesetround(mode); },
                       [] { std::fesetround(FE_TONEAREST); }),
                   "round",
                   all_ways());
  }
}

TEST(LawSettings, RoundingOfAnotherThread) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({64});
        at::Tensor loss;
        std::thread([&] {
          std::fesetround(FE_UPWARD);
          loss = way(divided, x).sum();
        }).join();
        loss.backward();
        return Tensors{loss.detach(), x.grad()};
      },
      "round",
      all_ways());
}

TEST(LawSettings, DefaultDtype) {
  const auto set = [](at::ScalarType dtype) {
    torch::set_default_dtype(at::scalarTypeToTypeMeta(dtype));
  };
  law_or_refused(settings_changed([](at::Tensor h) { return (h + torch::full({4}, 0.1)).tanh(); },
                                  sines({4}),
                                  [set] { set(at::kDouble); },
                                  [set] { set(at::kFloat); }),
                 "default dtype",
                 all_ways());
}

TEST(LawSettings, DeterministicAlgorithms) {
  law_or_refused(settings_changed(
                     tanh_of_product,
                     sines({4, 4}),
                     [] { at::globalContext().setDeterministicAlgorithms(true, false); },
                     [] { at::globalContext().setDeterministicAlgorithms(false, false); }),
                 "deterministic",
                 all_ways());
}

TEST(LawSettings, MatmulPrecision) {
  law_or_refused(settings_changed(
                     tanh_of_product,
                     sines({64, 64}),
                     [] { at::globalContext().setFloat32MatmulPrecision("medium"); },
                     [] { at::globalContext().setFloat32MatmulPrecision("highest"); }),
                 "precision",
                 all_ways());
}

TEST(LawSettings, OneDnn) {
  law_or_refused(settings_changed(
                     [](at::Tensor h) {
                       return torch::conv2d(h, sines({2, 2, 3, 3})).tanh();
                     },
                     sines({1, 2, 8, 8}),
                     [] { at::globalContext().setUserEnabledMkldnn(false); },
                     [] { at::globalContext().setUserEnabledMkldnn(true); }),
                 "oneDNN",
                 all_ways());
}

TEST(LawSettings, PrecisionOfRecurrentLayers) {
  using at::Float32Backend, at::Float32Op, at::Float32Precision;
  const auto set = [](Float32Precision precision) {
    at::globalContext().setFloat32Precision(Float32Backend::MKLDNN, Float32Op::RNN, precision);
  };
  torch::nn::LSTM lstm(16, 16);
  law_or_refused(settings_changed(
                     [lstm](at::Tensor h) {
                       auto module = lstm;
                       return std::get<0>(module(h)).tanh();
                     },
                     sines({4, 2, 16}),
                     [set] { set(Float32Precision::BF16); },
                     [set] { set(Float32Precision::NONE); }),
                 "precision");
}

// Forward finds another value than the region before it, and backward the first one again.
TEST(LawSettings, PrecisionThatIsInherited) {
  using at::Float32Backend, at::Float32Op, at::Float32Precision;
  const auto set = [](Float32Backend backend, Float32Precision precision) {
    at::globalContext().setFloat32Precision(backend, Float32Op::ALL, precision);
  };
  for (const auto backend : {Float32Backend::MKLDNN, Float32Backend::GENERIC}) {
    law_or_refused(
        [=](const Way& way) {
          const Restored<int> undone(0, [=](int) { set(backend, Float32Precision::NONE); });
          auto x = sine_leaf({64, 64});
          const auto first = way(tanh_of_product, x);
          first.sum().backward();
          set(backend, Float32Precision::BF16);
          const auto y = way(tanh_of_product, x);
          set(backend, Float32Precision::NONE);
          y.sum().backward();
          return Tensors{x.grad()};
        },
        "precision",
        all_ways());
  }
}

TEST(LawSettings, Nnpack) {
  at::globalContext().setUserEnabledMkldnn(false);
  const Restored<bool> undone(true, [](bool on) { at::globalContext().setUserEnabledMkldnn(on); });
  law_or_refused(settings_changed(
                     [](at::Tensor h) {
                       return torch::conv2d(h, sines({8, 4, 3, 3})).tanh();
                     },
                     sines({16, 4, 12, 12}),
                     [] { at::globalContext().setUserEnabledNNPACK(false); },
                     [] { at::globalContext().setUserEnabledNNPACK(true); }),
                 "NNPACK",
                 all_ways());
}

// Inside at::parallel_for, operators do not share their work among threads.
TEST(LawSettings, BackwardInsideAParallelLoop) {
  law_or_refused(
      [](const Way& way) {
        const Restored<int> undone(at::get_num_threads(), at::set_num_threads);
        at::set_num_threads(3);
        auto x = sine_leaf({200'000});
        const auto loss = way(scaled_by_sum, x).sum();
        at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t) {
          if (begin == 0) {
            loss.backward();
          }
        });
        return Tensors{x.grad()};
      },
      "thread",
      all_ways());
}

TEST(LawSettings, AttentionBackend) {
  law_or_refused(
      settings_changed(
          [](at::Tensor h) { return at::scaled_dot_product_attention(h, h.sin(), h.cos()).tanh(); },
          sines({1, 2, 8, 16}),
          [] { at::globalContext().setSDPUseFlash(false); },
          [] { at::globalContext().setSDPUseFlash(true); }),
      "attention",
      all_ways());
}

TEST(LawSettings, GradModeIsOffInBackward) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto loss = way(tanh_of_product, x).sum();
        const torch::NoGradGuard no_grad;
        loss.backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawSettings, BackwardInInferenceMode) {
  law_or_refused(
      [](const Way& way) {
        auto x = sine_leaf({4, 4});
        const auto loss = way(tanh_of_product, x).sum();
        const c10::InferenceMode inference;
        loss.backward();
        return Tensors{x.grad()};
      },
      "InferenceMode");
}

TEST(LawSettings, BackwardBelowAutogradKeys) {
  law([](const Way& way) {
    auto x = sine_leaf({4, 4});
    const auto loss = way(tanh_of_product, x).sum();
    const at::AutoDispatchBelowADInplaceOrView below;
    loss.backward();
    return Tensors{x.grad()};
  });
}

TEST(LawSettings, MultithreadedBackwardIsTurnedOff) {
  auto& state = c10::AutogradState::get_tls_state();
  law(settings_changed(
          tanh_of_product,
          sines({4, 4}),
          [&] { state.set_multithreading_enabled(false); },
          [&] { state.set_multithreading_enabled(true); }),
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
