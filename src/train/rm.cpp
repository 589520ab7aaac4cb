#include <reprise/train/rm.h>

#include "train/passes.h"

#include <reprise/io/json.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Rm final : public TrainingObjective {
 public:
  Rm(std::shared_ptr<Model> model, const RmOptions& options)
      : model_(std::move(model)), options_(options) {
    TORCH_CHECK(model_->head() == HeadKind::Score && model_->outputs() == 1,
                "[rm] expected a model with a score head of one label.");
  }

  Model& model() const override { return *model_; }

  void begin_evaluation() override { moments_ = {}; }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto scores = model_->score(input_of(batch.main), options_.pooling).squeeze(-1);
    if (context.meter != nullptr) {
      context.meter->end_forward();
    }
    const auto pair = scores.chunk(2);
    if (context.is_evaluation) {
      moments_.add(scores);
    }
    const auto result = reward_loss(
        pair[0], pair[1], options_.use_margin ? batch.margin : at::Tensor(), options_.loss);
    const auto pairs = static_cast<double>(pair[0].numel());
    return {result.loss / context.total_weight,
            {mean_metric("mean_reward", scores),
             {"accuracy", result.accuracy.item<double>() * pairs, pairs},
             {"margin", result.margin.item<double>() * pairs, pairs}}};
  }

  NamedTensors state() const override {
    return {{"reward_moments",
             at::tensor({static_cast<double>(moments_.count), moments_.mean, moments_.squares},
                        at::kDouble)}};
  }

  void load(const SafetensorsFile& file) override {
    const auto* info = file.find("reward_moments");
    TORCH_CHECK(info != nullptr && info->shape == std::vector<int64_t>{3},
                file.path().string(),
                ": reward_moments: expected three numbers");
    const auto values = file.view(*info).to(at::kDouble);
    moments_ = {static_cast<int64_t>(values[0].item<double>()),
                values[1].item<double>(),
                values[2].item<double>()};
  }

  void complete(const std::filesystem::path& folder) const override {
    const auto file = folder / "config.json";
    if (moments_.count == 0 || !std::filesystem::exists(file)) {
      return;  // no evaluation so far, or an adapter, which has no config.json
    }
    Json json = read_json(file);
    json["reward_mean"] = moments_.mean;
    json["reward_std"] = moments_.deviation();
    write_json(file, json);
  }

 private:
  std::shared_ptr<Model> model_;
  RmOptions options_;
  RewardMoments moments_;  // of the last evaluation
};

}  // namespace

std::unique_ptr<TrainingObjective> make_rm(std::shared_ptr<Model> model, const RmOptions& options) {
  return std::make_unique<Rm>(std::move(model), options);
}

}  // namespace reprise
