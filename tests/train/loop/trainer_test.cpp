// What the loop promises beyond the numbers of one run: accumulation, evaluation beside training,
// frozen weights, averages, memory that adds up, and errors that name the row.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

class Trainer : public ::testing::Test {
 protected:
  /// A run in a folder of its own.
  TrainingCase& make(const std::string& objective, const Json& run) {
    folders_.push_back(std::make_unique<TemporaryFolder>());
    cases_.push_back(std::make_unique<TrainingCase>(objective, run, *folders_.back()));
    return *cases_.back();
  }

  static CollectingObserver train(TrainingCase& one) {
    CollectingObserver observer;
    one.train(observer);
    return observer;
  }

  static std::map<std::string, at::Tensor> weights_of(const Model& model) {
    std::map<std::string, at::Tensor> weights;
    for (const auto& item : model.named_parameters()) {
      weights[item.key()] = item.value().detach().clone();
    }
    return weights;
  }

 private:
  std::vector<std::unique_ptr<TemporaryFolder>> folders_;
  std::vector<std::unique_ptr<TrainingCase>> cases_;
};

/// 26 rows: the last step of an epoch has two.
TEST_F(Trainer, AccumulatingIsOneLargeBatch) {
  auto& whole = make("sft", usual_run("sft", 8));
  const auto expected = train(whole);
  for (const int64_t accumulation : {2, 4}) {
    SCOPED_TRACE(accumulation);
    Json run = usual_run("sft", 8);
    run["arguments"]["per_device_train_batch_size"] = 4 / accumulation;
    run["arguments"]["gradient_accumulation_steps"] = accumulation;
    auto& parts = make("sft", run);
    const auto found = train(parts);
    // Entropy and accuracy are means of those of the micro-batches, as in TRL.
    for (const char* name : {"loss", "grad_norm"}) {
      const auto series = found.all(name), same = expected.all(name);
      for (size_t i = 0; i < same.size(); ++i) {
        EXPECT_NEAR(series[i], same[i], 1e-6 * std::max(1.0, same[i]))
            << name << ", step " << i + 1;
      }
    }
    for (const auto& [name, weight] : weights_of(*parts.model)) {
      const auto other = weights_of(*whole.model).at(name);
      EXPECT_TRUE(torch::allclose(weight, other, 1e-5, 1e-5)) << name;
    }
  }
}

TEST_F(Trainer, EvaluatingDoesNotChangeTraining) {
  Json run = usual_run("sft", 5);
  run["attention_dropout"] = 0.2;  // evaluation must neither draw numbers nor leave dropout off
  const auto expected = train(make("sft", run)).all("loss");
  run["eval_data"] = "sft_text";
  auto& one = make("sft", run);
  one.options.eval_steps = 1;
  const auto found = train(one);
  EXPECT_EQ(found.all("loss"), expected);
  EXPECT_EQ(found.evaluations.size(), 5);
}

TEST_F(Trainer, EvaluationIsTheMeanOverAllTokensWhateverTheBatches) {
  Json run = usual_run("sft", 1);
  run["eval_data"] = "sft_text";
  std::vector<double> losses;
  for (const int64_t batch_size : {3, 26}) {
    auto& one = make("sft", run);
    one.options.eval_batch_size = batch_size;
    losses.push_back(train(one).evaluations.at(0)["eval_loss"].get<double>());
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5);
}

TEST_F(Trainer, MemoryAddsUpToThePeak) {
  for (const char* objective : {"sft", "dpo"}) {
    auto& one = make(objective, usual_run(objective, 3));
    one.model->enable_checkpointing();
    for (const Json& step : train(one).steps) {
      int64_t sum = 0;
      for (const auto& [name, bytes] : step["memory"].items()) {
        EXPECT_GE(bytes.get<int64_t>(), 0) << name;
        sum += bytes.get<int64_t>();
      }
      EXPECT_EQ(sum, step["peak_bytes"]);
      EXPECT_GT(step["memory"]["activations"], 0);
      EXPECT_GT(step["estimated_activation_bytes"], step["activation_bytes"]);
    }
  }
}

TEST_F(Trainer, LeavesFrozenWeightsAlone) {
  auto& one = make("sft", plain_run("sft_text", "teacher", 3));
  const auto is_frozen = [](const std::string& name) {
    return name.find("layers.1.") != std::string::npos || name.find("embed") != std::string::npos;
  };
  for (auto& item : one.model->named_parameters()) {
    item.value().requires_grad_(!is_frozen(item.key()));
  }
  const auto before = weights_of(*one.model);
  train(one);
  for (const auto& [name, weight] : weights_of(*one.model)) {
    EXPECT_EQ(bool(bitwise_equal(weight, before.at(name))), is_frozen(name)) << name;
  }
}

TEST_F(Trainer, AveragesTheWeightsOfAllSteps) {
  auto& one = make("sft", usual_run("sft", 5));
  one.options.ema_decay = 0.7;
  auto average = weights_of(*one.model);
  CollectingObserver observer;
  observer.stop_after = 4;
  observer.between_steps = [&](int64_t) {
    for (const auto& [name, weight] : weights_of(*one.model)) {
      average[name] = 0.7 * average[name] + 0.3 * weight;
    }
  };
  one.train(observer);
  const TensorFile saved(one.options.output / "checkpoint-4" / "ema.safetensors");
  for (const auto& [name, weight] : average) {
    const auto* info = saved.find(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_TRUE(torch::allclose(saved.view(*info), weight, 1e-6, 1e-7)) << name;
  }
}

TEST_F(Trainer, NoiseOnEmbeddingsChangesTheLossOfTrainingOnly) {
  Json run = usual_run("sft", 1);
  run["eval_data"] = "sft_text";
  run["arguments"]["learning_rate"] = 0.0;
  auto& plain = make("sft", run);
  auto& noisy = make("sft", run);
  noisy.model->add_embedding_noise(5);
  const auto expected = train(plain), found = train(noisy);
  EXPECT_NE(found.all("loss"), expected.all("loss"));
  EXPECT_EQ(found.evaluations[0]["eval_loss"], expected.evaluations[0]["eval_loss"]);
}

TEST_F(Trainer, WithoutDropoutTrainsInEvalMode) {
  Json run = usual_run("sft", 2);
  const auto expected = train(make("sft", run)).all("loss");
  run["attention_dropout"] = 0.2;
  auto& one = make("sft", run);
  one.options.dropout = false;
  const auto found = train(one).all("loss");
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5);
  }
}

/// A data set in which one example begins with a token that no other has.
class WithOddExample final : public Dataset {
 public:
  WithOddExample(std::shared_ptr<const Dataset> inner, int64_t odd, int64_t token)
      : inner_(std::move(inner)), odd_(odd), token_(token) {}

  int64_t size() const override { return inner_->size(); }
  Example at(int64_t index) const override {
    Example example = inner_->at(index);
    if (index == odd_) {
      example.sequences[0].ids[0] = token_;
    }
    return example;
  }
  int64_t length(int64_t index) const override { return inner_->length(index); }
  std::string location_name(const RowLocation& location) const override {
    return inner_->location_name(location);
  }

 private:
  std::shared_ptr<const Dataset> inner_;
  int64_t odd_, token_;
};

void spoil_embedding(Model& model, int64_t token) {
  const torch::NoGradGuard no_grad;
  model.named_parameters()["model.embed_tokens.weight"][token].fill_(
      std::numeric_limits<float>::infinity());
}

TEST_F(Trainer, NamesTheRowWhoseLossIsNotFinite) {
  auto& one = make("sft", plain_run("sft_text", "teacher", 7));  // its head is not spoiled with it
  const int64_t token = one.tokenizer->id_of("<|im_start|>").value();  // of chats, not of texts
  one.data = std::make_shared<WithOddExample>(one.data, /*odd=*/7, token);
  spoil_embedding(*one.model, token);
  CollectingObserver observer;
  const std::string error = error_of([&] { one.train(observer); });
  const std::string place = one.data->location_name(one.data->at(7).location);
  EXPECT_TRUE(place.ends_with("sft_text.jsonl:8"));
  EXPECT_NE(error.find("the loss of row " + place + " is not finite"), std::string::npos) << error;
  EXPECT_EQ(observer.steps.size(), 2);  // it is in the third step
  EXPECT_NE(error.find("step 3"), std::string::npos);
}

/// Padding is in a batch of rows of several lengths, and in none of them alone.
TEST_F(Trainer, NamesAllRowsOfTheBatchIfNoneIsGuiltyAlone) {
  auto& one = make("sft", plain_run("sft_text", "teacher", 7));
  spoil_embedding(*one.model, one.options.collate.pad_id);
  CollectingObserver observer;
  const std::string error = error_of([&] { one.train(observer); });
  EXPECT_NE(error.find("of the micro-batch with rows"), std::string::npos) << error;
  for (const char* line : {"sft_text.jsonl:19", "sft_text.jsonl:1,", "sft_text.jsonl:25"}) {
    EXPECT_NE(error.find(line), std::string::npos) << line;
  }
}

TEST_F(Trainer, PolicyThatIsItsReferenceHasRewardsOfExactlyZero) {
  for (const char* objective : {"dpo", "kto"}) {
    for (const bool has_adapters : {false, true}) {
      SCOPED_TRACE(std::string(objective) + (has_adapters ? " with adapters" : ""));
      Json run = usual_run(objective, 1);
      run.erase("reference");
      if (has_adapters) {
        run["lora"] = Json::object();  // fresh: they compute nothing yet
      }
      const Json step = train(make(objective, run)).steps.at(0);
      EXPECT_EQ(step["rewards/chosen"], 0.0);
      EXPECT_EQ(step["rewards/rejected"], 0.0);
    }
  }
}

/// The teacher has a block more than the policy.
TEST_F(Trainer, AReferenceOfAnotherShapeThatIsToFollowIsRefusedBeforeTheFirstStep) {
  Json run = usual_run("dpo", 8);
  run["reference"] = "teacher";
  run["arguments"]["sync_ref_model"] = true;
  run["arguments"]["ref_model_mixup_alpha"] = 0.5;
  run["arguments"]["ref_model_sync_steps"] = 4;
  CollectingObserver observer;
  auto& one = make("dpo", run);
  expect_error([&] { one.train(observer); },
               "must have the same shapes, but its model.embed_tokens.weight is [300, 40], and the "
               "policy's [300, 32]");
  EXPECT_TRUE(observer.steps.empty());
}

TEST_F(Trainer, AReferenceCannotFollowAdaptersThatItDoesNotHave) {
  Json run = usual_run("dpo", 1);
  const Reference reference(make("dpo", run).model, ReferenceSync{});
  reference.check_sync(*make("dpo", run).model);
  run["lora"] = Json::object();
  expect_error([&] { reference.check_sync(*make("dpo", run).model); },
               "must have all trained parameters of the policy, but it has no tensor");
}

TEST_F(Trainer, AMetricThatNoEvaluationGivesIsRefusedWithThoseThereAre) {
  Json run = usual_run("sft", 1);
  run["eval_data"] = "sft_text";
  auto& one = make("sft", run);
  one.options.best_metric = "eval_accuracy";
  CollectingObserver observer;
  expect_error([&] { one.train(observer); },
               "eval_accuracy: no such metric; an evaluation gives eval_loss, eval_entropy");
}

}  // namespace
}  // namespace reprise::testing
