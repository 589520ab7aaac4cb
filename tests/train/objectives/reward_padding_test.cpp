// Reward models whose config.json and tokenizer name the same pad token, different ones or none,
// against TRL's RewardTrainer; and losses that do not depend on how rows are padded.
#include "support/pad_tokens.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr double kPaddingTolerance = 2e-5;

const Json& padding_file() {
  static const Json runs =
      read_json(training_fixtures() / "runs" / "reward_padding.json").at("runs");
  return runs;
}

struct PaddedRun {
  std::string name;
  const Json& json() const { return padding_file().at(name); }
};

void PrintTo(const PaddedRun& run, std::ostream* out) {
  *out << run.name;
}

std::vector<PaddedRun> padded_runs() {
  std::vector<PaddedRun> all;
  for (const auto& [name, run] : padding_file().items()) {
    if (run.contains("steps")) {
      all.push_back({name});
    }
  }
  return all;
}

/// The run on the same data and weights whose tokenizer has a pad token of its own.
const Json& run_with_own_pad(const Json& run) {
  for (const auto& other : padded_runs()) {
    if (other.json()["data"] == run["data"] && other.json()["config_pad"] == run["config_pad"] &&
        other.json()["tokenizer_pad"] == "<|endoftext|>") {
      return other.json();
    }
  }
  TORCH_CHECK(false, "no such run");
}

class RewardPadding : public ::testing::TestWithParam<PaddedRun> {
 protected:
  /// Trains as `reprise rm` does.
  CollectingObserver train(Pooling pooling) const {
    const TemporaryFolder folder;
    const auto path = folder.path() / "model";
    copy_score_model(path, run()["config_pad"], run()["tokenizer_pad"]);
    const auto model = load_model(path, {.head = HeadKind::Score}).model;
    const auto tokenizer = Tokenizer::open(path);
    DatasetOptions files;
    files.files = {{training_fixtures() / "data" / (run()["data"].get<std::string>() + ".jsonl")}};
    files.cache = folder.path() / "cache";
    files.tokenizer_key = "fixture";
    const Json& arguments = run()["arguments"];
    const auto data =
        open_dataset(RowTokenizer(tokenizer, row_options(Objective::Rm, arguments)), files);
    const auto& special = tokenizer->special_tokens();
    model->set_pad_id(reward_pad_id(special, pooling, data.report.ends_with_pad_count > 0));
    RmOptions options = rm_options(arguments);
    options.pooling = pooling;
    const auto objective = make_rm(model, options);
    auto training = trainer_options(arguments);
    training.collate.pad_id = special.pad.value_or(special.eos.value());
    training.output = folder.path() / "output";
    CollectingObserver observer;
    reprise::train({*objective, data.dataset, nullptr, [](const auto&) {}, {}}, training, observer);
    return observer;
  }

  static void expect_steps(const CollectingObserver& found, const Json& run) {
    for (const char* metric : {"loss", "grad_norm", "mean_reward", "margin", "accuracy"}) {
      const auto expected = run["steps"].at(metric).get<std::vector<double>>();
      const auto values = found.all(metric);
      ASSERT_EQ(values.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(
            values[i], expected[i], kPaddingTolerance * std::max(1.0, std::fabs(expected[i])))
            << metric << ", step " << i + 1;
      }
    }
  }

  static const Json& run() { return GetParam().json(); }
};

TEST_P(RewardPadding, TrainsAtTheRowsOwnEndAsTrlWithAPadTokenOfItsOwn) {
  expect_steps(train(Pooling::LastAttended), run_with_own_pad(run()));
}

TEST_P(RewardPadding, RightmostNotPadTrainsWhereTrlDoes) {
  expect_steps(train(Pooling::RightmostNotPad), run());
}

INSTANTIATE_TEST_SUITE_P(Pads,
                         RewardPadding,
                         ::testing::ValuesIn(padded_runs()),
                         [](const auto& run) { return run.param.name; });

/// The first rows of a case, collated in several ways: the loss must always be the same.
void expect_padding_has_no_effect(const std::string& objective) {
  const TemporaryFolder folder;
  const TrainingCase one(objective, usual_run(objective, /*steps=*/1), folder);
  std::vector<Example> examples;
  for (int64_t i = 0; i < 4; ++i) {
    examples.push_back(one.data->at(i));
  }
  const torch::NoGradGuard no_grad;
  const auto loss_of = [&](const CollateOptions& options) {
    return one.objective->loss(collate(examples, options), {}).part.item<double>();
  };
  const double expected = loss_of({.pad_id = kPadToken});
  for (const std::optional<int64_t> config_pad : {std::optional(kPadToken), {kEndToken}, {}}) {
    one.model->set_pad_id(config_pad);
    for (const CollateOptions& options :
         {CollateOptions{.pad_id = kPadToken, .pad_to_multiple_of = 32},
          CollateOptions{.pad_id = kEndToken},
          CollateOptions{.pad_id = 77},
          CollateOptions{.pad_id = kEndToken, .pad_left = true},
          CollateOptions{.pad_id = kEndToken, .padding_free = true}}) {
      EXPECT_NEAR(loss_of(options), expected, 1e-5)
          << objective << ": pad " << options.pad_id << ", left " << options.pad_left
          << ", padding-free " << options.padding_free;
    }
  }
}

TEST(RewardLosses, DoNotDependOnHowRowsArePadded) {
  expect_padding_has_no_effect("reward");
  expect_padding_has_no_effect("prm");
}

TEST(RewardPadId, IsThePadTokenUnlessRowsEndWithIt) {
  const SpecialTokens own{.bos = {}, .eos = 2, .pad = 0, .unk = {}};
  const SpecialTokens none{.bos = {}, .eos = 2, .pad = {}, .unk = {}};
  EXPECT_EQ(reward_pad_id(own, Pooling::LastAttended, false), 0);
  EXPECT_EQ(reward_pad_id(own, Pooling::LastAttended, true), std::nullopt);
  EXPECT_EQ(reward_pad_id(none, Pooling::LastAttended, false), std::nullopt);
  EXPECT_EQ(reward_pad_id(own, Pooling::RightmostNotPad, true), 0);
  EXPECT_EQ(reward_pad_id(none, Pooling::RightmostNotPad, false), 2);
}

}  // namespace
}  // namespace reprise::testing
