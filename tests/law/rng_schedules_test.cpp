// Several threads that draw from the default generator in a known order, so that all numbers can be
// compared with a plain run; and whole programs of several threads: data loaders, models that train
// at once.
#include "law/drawing_thread.h"
#include "law/law.h"

#include <algorithm>
#include <memory>
#include <set>

namespace reprise::testing {
namespace {

at::Tensor half_dropped(const at::Tensor& x) {
  return torch::dropout(x, 0.5, true);
}

/// Counts the runs of a region's function: 0 in forward, 1 in the recompute.
struct Runs {
  std::shared_ptr<int> count = std::make_shared<int>(0);
  int next() const { return (*count)++; }
};

at::Tensor drawn_elsewhere() {
  at::Tensor numbers;
  elsewhere([&] { numbers = torch::rand({4}); });
  return numbers;
}

TEST(LawRngSchedules, AnotherThreadDrawsBetweenTwoDraws) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [runs = Runs()](at::Tensor h) {
          h = half_dropped(h.exp());
          if (runs.next() == 0) {
            drawn_elsewhere();
          }
          return half_dropped(h.sin()).exp();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadDrawsDuringTheRecompute) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto numbers = std::make_shared<at::Tensor>();
        const auto fn = [numbers, runs = Runs()](at::Tensor h) {
          h = half_dropped(h.exp());
          if (runs.next() == 1) {
            *numbers = drawn_elsewhere();
          }
          return half_dropped(h.sin()).exp();
        };
        const auto y = way(fn, x);
        if (way.is_plain()) {
          *numbers = drawn_elsewhere();
        }
        y.sum().backward();
        return Seen{x.grad(), *numbers};
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadDrawsDuringBoth) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto numbers = std::make_shared<Seen>();
        const auto fn = [numbers](at::Tensor h) {
          h = half_dropped(h.exp());
          if (numbers->size() < 2) {  // in forward and in the first recompute
            numbers->push_back(drawn_elsewhere());
          }
          return half_dropped(h.sin()).exp();
        };
        const auto y = way(fn, x);
        if (way.is_plain()) {
          numbers->push_back(drawn_elsewhere());
        }
        y.sum().backward();
        numbers->push_back(x.grad());
        return *numbers;
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadSeedsTheGeneratorBeforeBackward) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) { return half_dropped(half_dropped(h.exp()).sin()); };
        const auto y = way(fn, x);
        elsewhere([] { torch::manual_seed(3); });
        y.sum().backward();
        return Seen{x.grad(), torch::rand({3})};
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadSeedsTheGeneratorInTheMiddleOfForward) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [runs = Runs()](at::Tensor h) {
          h = half_dropped(h.exp());
          if (runs.next() == 0) {
            elsewhere([] { torch::manual_seed(3); });
          }
          return half_dropped(h.sin()).exp();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadTrainsInTheMiddleOfForward) {
  law(
      [](const Way& way) {
        const auto x = leaf({64}), z = leaf({64});
        const auto other = [](at::Tensor h) { return half_dropped(h.sin()).exp(); };
        const auto fn = [way, other, z, runs = Runs()](at::Tensor h) {
          h = half_dropped(h.exp());
          if (runs.next() == 0) {
            elsewhere([&] { way(other, z).sum().backward(); });
          }
          return half_dropped(h.sin()).exp();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), z.grad()};
      },
      all_ways());
}

TEST(LawRngSchedules, AnotherThreadRunsBackwardInTheMiddleOfForward) {
  law(
      [](const Way& way) {
        const auto x = leaf({64}), z = leaf({64});
        const auto other = [](at::Tensor h) { return half_dropped(h.sin()).exp(); };
        const auto loss = way(other, z).sum();
        const auto fn = [loss, runs = Runs()](at::Tensor h) {
          h = half_dropped(h.exp());
          if (runs.next() == 0) {
            elsewhere([&] { loss.backward(); });
          }
          return half_dropped(h.sin()).exp();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), z.grad()};
      },
      all_ways());
}

TEST(LawRngSchedules, TwoRecomputesInterleave) {
  law(
      [](const Way& way) {
        const Seen xs{leaf({64}), leaf({64})};
        const auto meeting = std::make_shared<Meeting>();
        Seen losses;
        for (const auto& x : xs) {
          const auto fn = [meeting, runs = Runs()](at::Tensor h) {
            h = half_dropped(h.exp());
            if (runs.next() == 1) {
              meeting->arrive();
            }
            return half_dropped(half_dropped(h.sin()).exp()).sin();
          };
          losses.push_back(way(fn, x).sum());
        }
        in_parallel(2, [&](size_t i) { losses[i].backward(); });
        return Seen{xs[0].grad(), xs[1].grad()};
      },
      all_ways());
}

TEST(LawRngSchedules, LstmsWithDropoutAndADrawInBetween) {
  const auto all = ways();  // without Values: oneDNN leaves bytes of its workspace unwritten
  law(
      [](const Way& way) {
        torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 4).num_layers(3).dropout(0.5));
        const auto x = leaf({5, 2, 4});
        auto fn = [lstm, runs = Runs()](at::Tensor h) mutable {
          h = std::get<0>(lstm->forward(h));
          if (runs.next() == 0) {
            drawn_elsewhere();
          }
          return std::get<0>(lstm->forward(h));
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), lstm->parameters()[0].grad()};
      },
      {all[0], all[1], all[2]});
}

TEST(LawRngSchedules, ForwardsInSeriesAndBackwardsInParallel) {
  law(
      [](const Way& way) {
        Seen xs, losses;
        for (size_t i = 0; i < 8; ++i) {
          xs.push_back(leaf({64}));
          const auto fn = [](at::Tensor h) { return half_dropped(half_dropped(h.exp()).sin()); };
          losses.push_back(way(fn, xs.back()).sum());
        }
        in_parallel(xs.size(), [&](size_t i) { losses[i].backward(); });
        Seen gradients;
        for (const auto& x : xs) {
          gradients.push_back(x.grad());
        }
        return gradients;
      },
      all_ways());
}

TEST(LawRngSchedules, BackwardOnAnotherThreadWhileThisOneDraws) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) { return half_dropped(half_dropped(h.exp()).sin()); };
        at::Tensor loss = torch::zeros({});
        for (int i = 0; i < 40; ++i) {
          loss = loss + way(fn, x).sum();
        }
        Seen seen(200);
        in_parallel(2, [&](size_t i) {
          if (i == 0) {
            loss.backward();
            return;
          }
          for (auto& numbers : seen) {
            numbers = torch::rand({2});
          }
        });
        // The sequence of the drawing thread is undisturbed.
        seen.push_back(x.grad());
        return seen;
      },
      ways());
}

TEST(LawRngSchedules, NumbersDrawnDuringManyRecomputesAreUndisturbed) {
  law([](const Way& way) {
    const auto inner = [](at::Tensor h) { return half_dropped(h.exp()).sin(); };
    const auto outer = [way, inner](at::Tensor h) { return way(inner, way(inner, h)); };
    Seen xs, losses, seen(300);
    for (int i = 0; i < 20; ++i) {
      xs.push_back(leaf({64}));
      losses.push_back(way(outer, xs.back()).sum());
    }
    in_parallel(2, [&](size_t thread) {
      for (size_t i = 0; thread == 0 && i < losses.size(); ++i) {
        losses[i].backward();
      }
      for (size_t i = 0; thread == 1 && i < seen.size(); ++i) {
        seen[i] = i % 2 == 0 ? torch::randn({3}) : torch::randperm(5);
      }
    });
    for (const auto& x : xs) {
      seen.push_back(x.grad());
    }
    return seen;
  });
}

/// Training steps whose gradient belongs to the mask of their own forward.
void train_with_dropout(const Way& way, int steps) {
  for (int i = 0; i < steps; ++i) {
    const auto x = torch::ones({64}).set_requires_grad(true);
    const auto y = way(half_dropped, way(half_dropped, x));
    y.sum().backward();
    ASSERT_TRUE(bitwise_equal(x.grad(), y)) << "step " << i;
  }
}

TEST(LawRngSchedules, ModelsTrainInParallel) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    in_parallel(4, [&](size_t) { train_with_dropout(way, 100); });
  }
}

TEST(LawRngSchedules, ModelsTrainInParallelInDifferentWays) {
  const auto all = all_ways();
  in_parallel(all.size(), [&](size_t i) { train_with_dropout(all[i], 100); });
}

/// Augments its examples with numbers of the default generator.
struct AugmentedSet : torch::data::datasets::Dataset<AugmentedSet> {
  torch::data::Example<> get(size_t) override {
    const auto noise = torch::rand({}, torch::kDouble);
    return {torch::ones({64}, torch::kDouble) + noise, noise};
  }
  std::optional<size_t> size() const override { return 200; }
};

TEST(LawRngSchedules, ADataLoaderAugmentsOnWorkers) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    torch::manual_seed(20);
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        AugmentedSet().map(torch::data::transforms::Stack<>()),
        torch::data::DataLoaderOptions(4).workers(2));
    std::multiset<double> noise;
    for (auto& batch : *loader) {
      const auto x = batch.data.set_requires_grad(true);
      const auto y = way(half_dropped, way(half_dropped, x));
      y.sum().backward();
      ASSERT_TRUE(bitwise_equal(x.grad() * x, y));
      for (int64_t i = 0; i < batch.target.numel(); ++i) {
        noise.insert(batch.target.reshape({-1})[i].item<double>());
      }
    }
    ASSERT_EQ(noise.size(), 200);
    EXPECT_EQ(std::set<double>(noise.begin(), noise.end()).size(), 200) << "numbers repeat";
  }
}

TEST(LawRngSchedules, NumbersOfAnotherThreadNeverRepeat) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    torch::manual_seed(20);
    std::vector<double> numbers;
    std::atomic<bool> is_done{false};
    in_parallel(2, [&](size_t i) {
      if (i == 0) {
        train_with_dropout(way, 150);
        is_done = true;
      }
      while (i == 1 && !is_done && numbers.size() < 100'000) {
        numbers.push_back(torch::rand({}, torch::kDouble).item<double>());
      }
    });
    EXPECT_EQ(std::set<double>(numbers.begin(), numbers.end()).size(), numbers.size());
  }
}

}  // namespace
}  // namespace reprise::testing
