// Whole runs against TRL's trainers (and, for prm and kd, plain loops in torch): the same rows in
// the same order, losses, norms, learning rates, metrics and, at the end, weights.
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr double kTolerance = 1e-4;

/// Runs that are not ours, and why.
const std::map<std::string, std::string>& left_out() {
  static const std::map<std::string, std::string> reasons = {
      {"kd/cross_entropy_and_teacher_as_openrlhf",
       "OpenRLHF distils one position after the one whose token is predicted; ours are the same"}};
  return reasons;
}

struct RecordedRun {
  std::string objective;
  std::string name;
  std::shared_ptr<const Json> runs;  // of the objective

  const Json& json() const { return runs->at("runs").at(name); }
  const Json& expected(const std::string& metric) const { return json()["steps"].at(metric); }
};

void PrintTo(const RecordedRun& run, std::ostream* out) {
  *out << run.objective << "/" << run.name;
}

std::vector<RecordedRun> recorded_runs() {
  std::vector<RecordedRun> all;
  for (const char* objective : {"sft", "dpo", "kto", "reward", "prm", "kd"}) {
    const auto file = training_fixtures() / "runs" / (std::string(objective) + ".json");
    const auto runs = std::make_shared<const Json>(read_json(file));
    for (const auto& [name, run] : runs->at("runs").items()) {
      if (!left_out().contains(std::string(objective) + "/" + name)) {
        all.push_back({objective, name, runs});
      }
    }
  }
  return all;
}

std::string test_name(const ::testing::TestParamInfo<RecordedRun>& info) {
  std::string name = info.param.objective + "_" + info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

/// Passes everything on, and remembers which examples were trained on.
class RecordingObjective final : public TrainingObjective {
 public:
  explicit RecordingObjective(TrainingObjective& inner) : inner_(inner) {}

  std::vector<std::vector<std::vector<int64_t>>> indices = {{}};  ///< [step][micro-batch]

  double weight(const Batch& batch) const override { return inner_.weight(batch); }
  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    indices.back().push_back(batch.indices);
    return inner_.loss(batch, context);
  }
  Model& model() const override { return inner_.model(); }
  void after_step(int64_t step) override {
    indices.emplace_back();
    inner_.after_step(step);
  }

 private:
  TrainingObjective& inner_;
};

bool is_near(double found, double expected, double scale) {
  return std::abs(found - expected) <= kTolerance * std::max(std::abs(expected), scale);
}

class TrlParity : public ::testing::TestWithParam<RecordedRun> {
 protected:
  void SetUp() override {
    case_ = std::make_unique<TrainingCase>(GetParam().objective, GetParam().json(), folder_);
    RecordingObjective recording(*case_->objective);
    case_->train(recording, observer_);
    rows_ = std::move(recording.indices);
    rows_.pop_back();  // begun after the last step
  }

  /// `scale`: below it, differences count as absolute ones.
  void expect_series(const std::string& theirs, const std::string& ours, double scale) const {
    const Json& expected = GetParam().expected(theirs);
    ASSERT_EQ(observer_.steps.size(), expected.size()) << theirs;
    for (size_t i = 0; i < expected.size(); ++i) {
      const Json& step = observer_.steps[i];
      ASSERT_EQ(step.contains(ours), !expected[i].is_null()) << ours << ", step " << i + 1;
      if (step.contains(ours)) {
        const double found = step[ours].get<double>();
        EXPECT_TRUE(is_near(found, expected[i].get<double>(), scale))
            << ours << ", step " << i + 1 << ": " << found << ", not " << expected[i];
      }
    }
  }

  void expect_rows() const {
    const Json& run = GetParam().json();
    auto found = rows_;
    if (!run.contains("packed")) {
      for (auto& step : found) {
        for (auto& batch : step) {
          for (int64_t& index : batch) {
            index = case_->data->at(index).location.line - 1;
          }
        }
      }
    }
    EXPECT_EQ(Json(found), run["rows"]);
  }

  void expect_metrics() const;

  void expect_weights() const {
    const Json& expected = GetParam().json()["final_weights"];
    const auto trained = trained_parameters(*case_->model);
    EXPECT_EQ(trained.size(), expected.size());
    for (const auto& [name, parameter] : trained) {
      ASSERT_TRUE(expected.contains(name)) << name;
      const auto value = parameter.detach().to(at::kDouble);
      const double norm = expected[name][1].get<double>();
      EXPECT_TRUE(is_near(value.sum().item<double>(), expected[name][0].get<double>(), norm))
          << name << ": sum " << value.sum().item<double>() << ", not " << expected[name][0];
      EXPECT_TRUE(is_near(value.norm().item<double>(), norm, 0)) << name << ": norm";
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<TrainingCase> case_;
  CollectingObserver observer_;
  std::vector<std::vector<std::vector<int64_t>>> rows_;
};

/// Metrics of theirs that we do not log, everywhere or in a run.
const std::set<std::string>& not_logged() {
  static const std::set<std::string> names = {
      "kd/teacher_alone cross_entropy",  // has no share in the loss
      "dpo/sft rewards/chosen",          // the loss needs no reference, so none is run
      "dpo/sft rewards/rejected",
      "dpo/sft rewards/margins",
      "dpo/sft rewards/accuracies",
      "labels"};  // how many steps a batch judges: said by the data
  return names;
}

/// Metrics of theirs that we call otherwise.
std::string our_name(const std::string& theirs) {
  static const std::map<std::string, std::string> names = {{"cross_entropy", "gpt_loss"},
                                                           {"distillation", "kd_loss"}};
  const auto other = names.find(theirs);
  return other == names.end() ? theirs : other->second;
}

/// Not a mean of what micro-batches say.
bool is_of_step(const std::string& name) {
  static const std::set<std::string> names = {"loss", "grad_norm", "learning_rate", "num_tokens"};
  return names.contains(name);
}

void TrlParity::expect_metrics() const {
  const std::string here = GetParam().objective + "/" + GetParam().name + " ";
  for (const auto& [name, values] : GetParam().json()["steps"].items()) {
    if (!not_logged().contains(name) && !not_logged().contains(here + name)) {
      const bool is_small = !is_of_step(name);  // rewards are differences of large numbers
      expect_series(name, our_name(name), is_small ? 1 : 0);
    }
  }
}

TEST_P(TrlParity, TrainsAsTheReferenceDid) {
  expect_rows();
  expect_metrics();
  expect_weights();
}

INSTANTIATE_TEST_SUITE_P(AllRuns, TrlParity, ::testing::ValuesIn(recorded_runs()), test_name);

}  // namespace
}  // namespace reprise::testing
