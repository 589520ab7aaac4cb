#include <reprise/train/rm.h>

#include "train/objectives/forward_passes.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

constexpr double kMaxCount = 9007199254740992.0;  // 2^53: above it, doubles skip integers

at::Tensor moments_tensor(const RewardMoments& moments) {
  return at::tensor({static_cast<double>(moments.count), moments.mean, moments.squares},
                    at::kDouble);
}

RewardMoments moments_of(const at::Tensor& numbers) {
  return {static_cast<int64_t>(numbers[0].item<double>()),
          numbers[1].item<double>(),
          numbers[2].item<double>()};
}

class Rm final : public TrainingObjective {
 public:
  Rm(std::shared_ptr<Model> model, const RmOptions& options)
      : model_(std::move(model)), options_(options) {
    TORCH_CHECK(model_->head() == HeadKind::Score && model_->outputs() == 1,
                "[rm] expected a model with a score head of one label.");
  }

  Model& model() const override { return *model_; }

  void begin_evaluation() override { moments_ = {}; }

  void end_evaluation(const World& world) override {
    const auto own = moments_tensor(moments_);
    const auto all = at::empty({world.size() * own.numel()}, at::kDouble);
    world.start_all_gather(all, own, "the mean and deviation of rewards")->wait();
    moments_ = {};
    for (const auto& theirs : all.view({world.size(), -1}).unbind()) {
      moments_.add(moments_of(theirs));
    }
  }

  double evaluation_weight(const Batch& batch) const override {
    return static_cast<double>(batch.rows.size());
  }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto scores = model_->score(input_of(batch.main), options_.pooling).squeeze(-1);
    context.forward_done();
    TORCH_CHECK(scores.size(0) % 2 == 0,
                "[rm] expected pairs, all chosen sequences before the rejected ones, found ",
                scores.size(0),
                " sequences.");
    const auto pair = scores.chunk(2);
    if (context.is_evaluation && !context.is_filler) {
      moments_.add(scores);
    }
    const auto result = reward_loss(
        pair[0], pair[1], options_.use_margin ? batch.margin : at::Tensor(), options_.loss);
    const auto pairs = static_cast<double>(pair[0].numel());
    return {result.loss / context.total_weight,
            {metric_of("min_reward", scores.amin(), 1, MetricMean::OfMinima),
             mean_metric("mean_reward", scores),
             metric_of("max_reward", scores.amax(), 1, MetricMean::OfMaxima),
             metric_of("accuracy", result.accuracy * pairs, pairs),
             metric_of("margin", result.margin * pairs, pairs)}};
  }

  NamedTensors state() const override { return {{"reward_moments", moments_tensor(moments_)}}; }

  void load(const TensorFile& file) override {
    const auto* info = file.find("reward_moments");
    TORCH_CHECK(info != nullptr && info->shape == std::vector<int64_t>{3},
                file.path().string(),
                ": reward_moments: expected three numbers");
    const auto values = file.view(*info).to(at::kDouble);
    const auto count = values[0].item<double>();
    TORCH_CHECK(count >= 0 && count < kMaxCount,
                file.path().string(),
                ": reward_moments: expected a count of rewards first, found ",
                count);
    moments_ = moments_of(values);
  }

  void save_extras(const std::filesystem::path& folder) const override {
    if (moments_.count == 0) {
      return;  // no evaluation so far
    }
    const auto config = folder / "config.json";
    const bool is_model = std::filesystem::exists(config);  // adapters have no config.json
    const auto file = is_model ? config : folder / "reward_statistics.json";
    Json json = is_model ? read_json(config) : Json::object();
    json["reward_mean"] = moments_.mean;
    json["reward_std"] = moments_.deviation();
    write_json(file, json);
  }

 private:
  std::shared_ptr<Model> model_;
  RmOptions options_;
  RewardMoments moments_;  // of the latest evaluation
};

}  // namespace

std::unique_ptr<TrainingObjective> make_rm(std::shared_ptr<Model> model, const RmOptions& options) {
  return std::make_unique<Rm>(std::move(model), options);
}

std::optional<int64_t> reward_pad_id(const SpecialTokens& tokens,
                                     Pooling pooling,
                                     bool rows_end_with_pad) {
  if (pooling == Pooling::RightmostNotPad) {
    return tokens.pad ? tokens.pad : tokens.eos;
  }
  return rows_end_with_pad ? std::nullopt : tokens.pad;
}

}  // namespace reprise
