// Tokenises requests like the rows of `reprise rm` (data/rows/pair_rows.cpp), scores them in
// batches sorted by length, and returns the scores in the order of the requests.
#include <reprise/reward/model.h>

#include "data/rows/row_encoder.h"
#include "model/eval_scope.h"

#include <reprise/data/batch.h>
#include "model/without_checkpointing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace reprise {
namespace {

using data::RowEncoder;
using data::TextOrChat;

/// Moves the model to a device for the duration of a scope, then back to the CPU.
class Onload {
 public:
  Onload(Model& model, at::Device device) : model_(model) { model_.to(device); }
  ~Onload() { model_.to(at::kCPU); }
  Onload(const Onload&) = delete;
  Onload& operator=(const Onload&) = delete;

 private:
  Model& model_;
};

/// Mean and deviation of rewards, from config.json.
struct RewardScale {
  double mean = 0;
  double deviation = 1;
};

RewardScale read_scale(const Json& config) {
  const auto number = [&](const char* key) {
    const auto found = config.find(key);
    TORCH_CHECK(found != config.end() && found->is_number(),
                "[reward] the reward model's config.json has no number ",
                key,
                " to normalise by: `reprise rm` writes it after an evaluation");
    return found->get<double>();
  };
  const RewardScale scale{number("reward_mean"), number("reward_std")};
  TORCH_CHECK(std::isfinite(scale.mean) && std::isfinite(scale.deviation) && scale.deviation > 0,
              "[reward] the reward model's config.json: expected a finite reward_mean and a "
              "reward_std above 0, found ",
              scale.mean,
              " and ",
              scale.deviation);
  return scale;
}

class ScoreModel final : public ModelReward {
 public:
  ScoreModel(std::shared_ptr<Model> model,
             std::shared_ptr<const Tokenizer> tokenizer,
             const ModelRewardOptions& options)
      : model_(std::move(model)),
        device_(model_->device()),
        options_(options),
        encoder_(tokenizer, row_options(options)) {
    TORCH_CHECK(model_->head() == HeadKind::Score && model_->outputs() == 1,
                "[reward] ",
                options_.name,
                ": expected a reward model, which has a score head of one label.");
    TORCH_CHECK(options_.batch_size > 0 && options_.max_length >= 0,
                "[reward] expected a batch size above 0 and a length that is not negative");
    if (options_.is_normalized) {
      scale_ = read_scale(model_->config().source);
    }
    const int64_t positions = model_->config().max_positions;
    max_length_ = options_.max_length > 0 ? std::min(options_.max_length, positions) : positions;
    model_->eval();
    for (auto& parameter : model_->parameters()) {
      parameter.requires_grad_(false);
    }
    if (options_.is_offloaded) {
      model_->to(at::kCPU);
    }
  }

  std::string name() const override { return options_.name; }
  const Model* model() const override { return model_.get(); }
  int64_t too_long() const override { return too_long_; }

  std::vector<double> score(std::span<const RewardRequest> requests) override {
    std::vector<double> rewards(requests.size(), std::numeric_limits<double>::quiet_NaN());
    const std::vector<Example> examples = encode(requests);
    const std::vector<size_t> order = by_length(examples);
    std::optional<Onload> onload;
    if (options_.is_offloaded && !order.empty()) {
      onload.emplace(*model_, device_);
    }
    const auto batch_size = static_cast<size_t>(options_.batch_size);
    for (size_t begin = 0; begin < order.size(); begin += batch_size) {
      const auto batch =
          std::span(order).subspan(begin, std::min(batch_size, order.size() - begin));
      score_batch(examples, batch, rewards);
    }
    return rewards;
  }

 private:
  static RowOptions row_options(const ModelRewardOptions& options) {
    RowOptions rows;
    rows.objective = Objective::Rm;
    rows.chat_template = options.chat_template;
    return rows;
  }

  /// One example per request, without a sequence if it cannot be scored.
  std::vector<Example> encode(std::span<const RewardRequest> requests) {
    std::vector<Example> examples(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      TokenIds ids = checked_ids(requests[i]);
      if (static_cast<int64_t>(ids.size()) > max_length_) {
        ++too_long_;
      } else if (!ids.empty()) {
        const auto length = static_cast<int64_t>(ids.size());
        examples[i].sequences.push_back(data::completion_sequence(std::move(ids), length));
      }
    }
    return examples;
  }

  TokenIds checked_ids(const RewardRequest& request) const {
    try {
      TokenIds ids = ids_of(request);
      const auto largest = std::max_element(ids.begin(), ids.end());
      TORCH_CHECK(largest == ids.end() || *largest < model_->config().vocabulary,
                  "its tokenizer gives the id ",
                  *largest,
                  ", its model has ",
                  model_->config().vocabulary,
                  " embeddings: they do not match");
      return ids;
    } catch (const c10::Error& error) {
      TORCH_CHECK(false, "[reward] ", options_.name, ": ", error.what_without_backtrace());
    }
  }

  TokenIds ids_of(const RewardRequest& request) const {
    const bool is_chat = options_.text == RewardText::Chat ||
                         (options_.text == RewardText::AsRequested && !request.messages.empty());
    if (!is_chat) {
      const TextOrChat answer = data::make_text(request.completion);
      return encoder_.encode(
          data::concatenate(data::make_text(request.prompt),
                            request.is_finished ? encoder_.with_eos(answer) : answer),
          Json::object());
    }
    Json messages = request.messages;
    if (messages.empty()) {
      messages = Json::array({{{"role", "user"}, {"content", request.prompt}}});
    }
    messages.push_back({{"role", "assistant"}, {"content", request.completion}});
    static const std::map<std::string, std::string> kOwnNames;
    return encoder_.encode(data::make_chat(std::move(messages)),
                           request.row
                               ? data::template_variables(data::RowFields(*request.row, kOwnNames))
                               : Json::object());
  }

  /// Examples with a sequence, longest first, so that a lack of memory shows at once.
  static std::vector<size_t> by_length(const std::vector<Example>& examples) {
    std::vector<size_t> order;
    for (size_t i = 0; i < examples.size(); ++i) {
      if (!examples[i].sequences.empty()) {
        order.push_back(i);
      }
    }
    const auto length = [&](size_t i) { return examples[i].sequences.front().ids.size(); };
    std::stable_sort(
        order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
    return order;
  }

  void score_batch(const std::vector<Example>& examples,
                   std::span<const size_t> batch,
                   std::vector<double>& rewards) {
    std::vector<Example> rows;
    for (const size_t i : batch) {
      rows.push_back(examples[i]);
    }
    const TokenBatch tokens = to_device(collate(rows, {}), model_->device()).main;
    ModelInput input;
    input.input_ids = tokens.input_ids;
    input.attention_mask = tokens.attention_mask;
    input.document_starts = tokens.document_starts;
    input.longest_document = tokens.longest_document;
    at::Tensor scores;
    const EvalScope no_dropout(*model_);
    without_checkpointing("the reward model",
                          [&] { scores = model_->score(input, options_.pooling); });
    scores = scores.squeeze(-1).to(at::kCPU, at::kDouble);
    for (size_t row = 0; row < batch.size(); ++row) {
      const double score = scores[static_cast<int64_t>(row)].item<double>();
      TORCH_CHECK(std::isfinite(score),
                  "[reward] ",
                  options_.name,
                  ": the reward model gives ",
                  score,
                  ", which is not a valid reward. Check its weights and dtype.");
      rewards[batch[row]] = (score - scale_.mean) / scale_.deviation;
    }
  }

  std::shared_ptr<Model> model_;
  at::Device device_;
  ModelRewardOptions options_;
  RowEncoder encoder_;
  RewardScale scale_;
  int64_t max_length_ = 0;
  int64_t too_long_ = 0;
};

}  // namespace

std::unique_ptr<ModelReward> make_model_reward(std::shared_ptr<Model> model,
                                               std::shared_ptr<const Tokenizer> tokenizer,
                                               const ModelRewardOptions& options) {
  return std::make_unique<ScoreModel>(std::move(model), std::move(tokenizer), options);
}

}  // namespace reprise
