// What training loops put together over processes: evaluations, metrics, figures of all rows. The
// processes are threads here; each has models of its own.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/thread_world.h"
#include "train/collecting_observer.h"
#include "train/loop/collate_rows.h"
#include "train/loop/evaluate.h"
#include "train/loop/metric_sums.h"
#include "train/online/experience_maker.h"
#include "train/online/online_case.h"
#include "train/training_case.h"

#include <reprise/parallel/shard.h>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

class SeveralProcesses : public ::testing::Test {
 protected:
  /// The same run in each of so many processes.
  std::vector<std::unique_ptr<TrainingCase>> cases(const std::string& objective, int64_t count) {
    Json run = usual_run(objective, 1);
    run["eval_data"] = run["data"];
    std::vector<std::unique_ptr<TrainingCase>> all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<TrainingCase>(objective, run, folder_));
    }
    return all;
  }

  static Json evaluation_of(const TrainingCase& one, int64_t batch_size, const World& world) {
    return evaluate(
        {*one.objective, *one.eval_data, one.options.collate, batch_size}, one.options, world);
  }

  TemporaryFolder folder_;
};

void expect_same_figures(const Json& found, const Json& expected) {
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(found.contains(name)) << name;
    if (value.is_number_float() && name != "eval_ms") {
      EXPECT_NEAR(found[name].get<double>(), value.get<double>(), 2e-5) << name;
    }
  }
  EXPECT_EQ(found.size(), expected.size());
}

/// Seven batches: two of three processes have a filler.
TEST_F(SeveralProcesses, EvaluateWhatOneDoes) {
  for (const std::string objective : {"sft", "dpo", "kto", "reward", "prm", "kd"}) {
    SCOPED_TRACE(objective);
    const auto all = cases(objective, 4);
    const Json expected = evaluation_of(*all[3], 4, World::single());
    run_in_world(3, [&](const World& world) {
      const auto& own = *all[static_cast<size_t>(world.rank())];
      expect_same_figures(evaluation_of(own, 4, world), expected);
      const auto state = own.objective->state();
      for (size_t i = 0; i < state.size(); ++i) {
        EXPECT_TRUE(state[i].second.allclose(all[3]->objective->state()[i].second));
      }
    });
  }
}

TEST_F(SeveralProcesses, EvaluateFewerBatchesThanTheyAre) {
  const auto all = cases("reward", 4);
  const int64_t size = all[0]->eval_data->size();
  const Json expected = evaluation_of(*all[3], size, World::single());
  run_in_world(3, [&](const World& world) {
    const auto& own = *all[static_cast<size_t>(world.rank())];
    expect_same_figures(evaluation_of(own, size, world), expected);
    // Fillers are no rewards.
    EXPECT_EQ(own.objective->state()[0].second[0].item<double>(), 2 * static_cast<double>(size));
  });
}

TEST_F(SeveralProcesses, MeanMetricsThatNotAllOfThemHave) {
  const auto figure = [](const char* name, double sum, double weight) {
    return Metric{name, at::scalar_tensor(sum), at::scalar_tensor(weight)};
  };
  run_in_world(3, [&](const World& world) {
    MetricSums sums;
    if (world.rank() == 0) {
      sums.add(
          {figure("first", 1, 1), figure("endless", std::numeric_limits<double>::infinity(), 1)});
    } else if (world.rank() == 2) {  // rank 1 had nothing but fillers
      sums.add({figure("last", 5, 2), figure("first", 5, 3), figure("nothing", 0, 0)});
    }
    Json record = Json::object();
    sums.write_to(record, world, "a_");
    EXPECT_EQ(record.size(), 3);
    EXPECT_EQ(record.begin().key(), "a_first");
    EXPECT_EQ(record["a_first"], 1.5);
    EXPECT_EQ(record["a_last"], 2.5);
    EXPECT_TRUE(std::isinf(record["a_endless"].get<double>()));
  });
}

TEST_F(SeveralProcesses, PrecomputeTheSameTable) {
  for (const std::string objective : {"dpo", "kto"}) {
    const auto all = cases(objective, 4);
    PrecomputeOptions options{.collate = all[3]->options.collate, .batch_size = 4};
    const auto expected = precompute_reference(all[3]->referenced(), *all[3]->data, options);
    options.cache = folder_ / (objective + ".safetensors");
    for (const int64_t passes : {3, 0}) {  // 7 batches in 3 processes; then they are in the file
      std::vector<int64_t> done;
      options.progress = [&](int64_t rows, int64_t) { done.push_back(rows); };
      run_in_world(3, [&](const World& world) {
        const auto& own = *all[static_cast<size_t>(world.rank())];
        EXPECT_TRUE(bitwise_equal(precompute_reference(own.referenced(), *own.data, options, world),
                                  expected));
      });
      EXPECT_EQ(std::ssize(done), passes);
      EXPECT_TRUE(done.empty() || done.back() == expected.size(0));
    }
  }
}

/// A micro-batch of KTO whose KL is asked for.
class KtoBatch {
 public:
  KtoBatch(const TrainingCase& one, const std::vector<int64_t>& rows, const World& world)
      : objective_(make_kto(one.model, std::nullopt, {}, world)),
        batch_(collate_examples(*one.data, rows, one.options.collate)) {
    // As if the reference thought little of the mismatched responses: a KL below 0 would be cut.
    const auto known = precompute_reference(one.referenced(), *one.data, {one.options.collate, 4});
    objective_->use_precomputed(known - at::tensor({0.0F, 200.0F}), {});
  }

  double kl(const StepContext& context) const {
    for (const auto& figure : objective_->loss(batch_, context).metrics) {
      if (figure.name == "kl") {
        return figure.sum.item<double>();
      }
    }
    return std::nan("");
  }

 private:
  std::unique_ptr<ReferencedObjective> objective_;
  Batch batch_;
};

TEST_F(SeveralProcesses, MeasureTheKlOfKtoOverAllTheirRows) {
  const auto all = cases("kto", 3);
  const std::vector<std::vector<int64_t>> rows = {{0, 1, 2, 3, 4}, {5, 6}, {0, 1, 2, 3, 4}};
  const auto alone = [&](size_t rank) {
    return KtoBatch(*all[rank], rows[rank], World::single()).kl({});
  };
  const double first = alone(0), second = alone(1);
  ASSERT_GT(std::min(first, second), 0);
  ASSERT_GT(std::abs(first - second), 1e-3);
  run_in_world(3, [&](const World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const KtoBatch own(*all[rank], rows[rank], world);
    EXPECT_NEAR(own.kl({.allows_collectives = true, .is_filler = rank == 2}),
                (5 * first + 2 * second) / 7,
                1e-3);
    // A search for a bad row, an evaluation: nobody else computes.
    if (rank == 1) {
      EXPECT_EQ(own.kl({}), second);
    }
  });
}

/// As in TRL, the micro-batches that processes compute at the same time are one: their tokens are
/// pooled, those of accumulated micro-batches are not.
bool is_pooled_over_processes(const std::string& name) {
  return name == "entropy" || name == "mean_token_accuracy" || name.starts_with("logits/") ||
         name == "min_reward" || name == "max_reward" || name == "kl" || name == "step_time";
}

void expect_same_steps(const CollectingObserver& found, const CollectingObserver& expected) {
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (size_t i = 0; i < found.steps.size(); ++i) {
    for (const auto& [name, value] : expected.steps[i].items()) {
      const bool is_of_machine = name.find("bytes") != std::string::npos || name.ends_with("_ms") ||
                                 name.ends_with("_per_second") || !value.is_number();
      // How many are beyond a threshold is no smooth function of anything.
      if (!is_of_machine && name.find("clip") == std::string::npos &&
          !is_pooled_over_processes(name)) {
        const auto number = value.get<double>();
        EXPECT_NEAR(
            found.steps[i].at(name).get<double>(), number, 2e-5 * std::max(1.0, std::abs(number)))
            << name << " of step " << i + 1;
      }
    }
  }
}

/// Seven batches: one process has a filler in the last step of the epoch, or two.
TEST_F(SeveralProcesses, TrainAsOneWithAsManyTimesTheAccumulation) {
  const std::vector<std::pair<std::string, int64_t>> runs = {
      {"sft", 2}, {"sft", 3}, {"dpo", 3}, {"reward", 2}, {"kd", 3}};
  for (const auto& [objective, count] : runs) {
    const int64_t size = count;
    SCOPED_TRACE(objective + " in " + std::to_string(size));
    auto all = cases(objective, size + 1);
    const auto train_one = [&](TrainingCase& one, const World& world) {
      one.options.max_steps = 5;
      one.options.save_steps = 0;
      CollectingObserver observer;
      train({*one.objective, one.data, one.eval_data, {}}, one.options, observer, world);
      return observer;
    };
    auto& alone = *all.back();
    alone.options.accumulation = size;
    const auto expected = train_one(alone, World::single());
    run_in_world(size, [&](const World& world) {
      const auto own = std::move(all[static_cast<size_t>(world.rank())]);
      shard(*own->model, world, {.strategy = size == 2 ? Parallel::Ddp : Parallel::Fsdp});
      own->options.output = folder_ / std::to_string(world.rank());
      const auto found = train_one(*own, world);
      expect_same_steps(found, expected);
      expect_same_figures(found.evaluations.at(0), expected.evaluations.at(0));
    });
  }
}

/// Six prompts with four answers each, in micro-batches of two rows, whoever has them.
struct Collecting {
  explicit Collecting(OnlineEstimator estimator) : one(estimator) {
    one.options.training.batch_size = 2;
    one.options.rollout.generate.samples_per_prompt = 4;
    one.options.iterations = 2;  // old log-probabilities are needed
    one.prompts = one.with_prompts(
        {"The cat", "A constant dog and", "Where is the", "Tell me", "unknown", "One two"});
    one.eval_prompts = one.prompts;
    if (estimator == OnlineEstimator::Gae) {
      one.add_reference_in_reward(0.1);
      one.options.kl_target = 6.0;
    } else {
      one.add_reference_in_loss(0.1);
      one.options.filter_groups = true;
      one.options.filter_attempts = 3;
    }
  }

  OnlineJob job() const {
    OnlineJob job;
    job.policy = one.policy;
    job.critic = one.critic;
    job.reference = one.reference;
    job.rewards = one.rewards;
    job.prompts = one.prompts;
    job.eval_prompts = one.eval_prompts;
    job.tokenizer = one.tokenizer;
    return job;
  }

  /// The second generation batch, and an evaluation.
  void run(const World& world) {
    one.options.training.accumulation = 12 / world.size();
    const auto own_job = job();
    ExperienceMaker maker(own_job, one.options, world);
    const auto order = at::arange(23, -1, -1, at::kLong);
    maker.next(6, order, state);
    collected = maker.next(6, order, state);
    evaluation = maker.evaluate();
  }

  OnlineCase one;
  GenerationState state{0, 0.1};
  GenerationBatch collected;
  Json evaluation;
};

/// But for times and bytes.
Json figures_of(const Json& all) {
  Json figures = Json::object();
  for (const auto& [name, value] : all.items()) {
    if (!name.ends_with("_ms") && !name.ends_with("_bytes") && !name.ends_with("_per_second")) {
      figures[name] = value;
    }
  }
  return figures;
}

void expect_same_batch(const Collecting& found, const Collecting& expected) {
  const auto own = found.collected.experience.state();
  const auto theirs = expected.collected.experience.state();
  ASSERT_EQ(own.size(), theirs.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(own[i].second.allclose(theirs[i].second, 1e-5, 1e-6)) << own[i].first;
  }
  expect_same_figures(figures_of(found.collected.metrics), figures_of(expected.collected.metrics));
  expect_same_figures(figures_of(found.evaluation), figures_of(expected.evaluation));
  ASSERT_EQ(found.collected.samples.size(), expected.collected.samples.size());
  for (size_t i = 0; i < found.collected.samples.size(); ++i) {
    EXPECT_EQ(found.collected.samples[i]["completion"],
              expected.collected.samples[i]["completion"]);
  }
  EXPECT_EQ(found.state.prompts_used, expected.state.prompts_used);
  EXPECT_NEAR(found.state.kl_coef, expected.state.kl_coef, 1e-6);
}

class EveryWorld : public ::testing::TestWithParam<OnlineEstimator> {};

/// Four processes have one prompt, or two.
TEST_P(EveryWorld, CollectsTheSameExperience) {
  Collecting expected(GetParam());
  expected.run(World::single());
  ASSERT_EQ(expected.collected.experience.size(), 24);
  for (const int64_t size : {2, 3, 4}) {
    SCOPED_TRACE(size);
    std::vector<std::unique_ptr<Collecting>> all;
    for (int64_t rank = 0; rank < size; ++rank) {
      all.push_back(std::make_unique<Collecting>(GetParam()));
    }
    run_in_world(size, [&](const World& world) {
      auto& own = *all[static_cast<size_t>(world.rank())];
      own.run(world);
      expect_same_batch(own, expected);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         EveryWorld,
                         ::testing::Values(OnlineEstimator::Gae, OnlineEstimator::Grpo));

/// With a critic there are pretraining batches too: seven.
TEST_P(EveryWorld, LearnsTheSameFromIt) {
  const TemporaryFolder folder;
  const auto prepare = [&](Collecting& each, int64_t size) {
    each.one.options.training.accumulation = 12 / size;
    if (GetParam() == OnlineEstimator::Gae) {
      each.one.add_pretraining(folder / "cache");
    }
  };
  const auto train_one = [&](Collecting& each, const World& world) {
    auto job = each.job();
    job.pretraining = each.one.pretraining;
    each.one.options.training.output = folder / std::to_string(world.rank());
    CollectingObserver observer;
    train_online(job, each.one.options, observer, world);
    return observer;
  };
  Collecting alone(GetParam());
  prepare(alone, 1);
  const auto expected = train_one(alone, World::single());
  std::vector<std::unique_ptr<Collecting>> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    all.push_back(std::make_unique<Collecting>(GetParam()));
    prepare(*all.back(), 4);
  }
  run_in_world(4, [&](const World& world) {
    const auto own = std::move(all[static_cast<size_t>(world.rank())]);
    shard(*own->one.policy, world, {.strategy = Parallel::Fsdp});
    if (own->one.critic != nullptr) {
      shard(*own->one.critic, world, {.strategy = Parallel::Fsdp});
    }
    expect_same_steps(train_one(*own, world), expected);
  });
}

class BrokenReward final : public RewardSource {
 public:
  std::string name() const override { return "broken"; }
  std::vector<double> score(std::span<const RewardRequest>) override {
    TORCH_CHECK(false, "the reward is broken");
  }
};

TEST(Rewards, ThatFailInOneProcessEndAll) {
  std::vector<std::unique_ptr<Collecting>> all;
  for (int64_t rank = 0; rank < 3; ++rank) {
    all.push_back(std::make_unique<Collecting>(OnlineEstimator::Grpo));
  }
  all[1]->one.rewards = std::make_shared<RewardList>(
      std::vector<WeightedReward>{{std::make_shared<BrokenReward>(), 1.0}});
  run_in_world(3, [&](const World& world) {
    auto& own = *all[static_cast<size_t>(world.rank())];
    const auto job = own.job();
    ExperienceMaker maker(job, own.one.options, world);
    expect_error([&] { maker.next(6, at::arange(24), own.state); }, "the reward is broken");
    EXPECT_TRUE(maker.failed_everywhere());
  });
}

}  // namespace
}  // namespace reprise::testing
