// A small run of online training, in-process: a tiny model that shall write a letter often.
#pragma once

#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>
#include <reprise/parallel/shard.h>
#include <reprise/text/tokenizer.h>
#include <reprise/train/online.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

/// Prompts that are in memory.
class FixedPrompts final : public PromptSet {
 public:
  FixedPrompts(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
    for (const auto& text : texts) {
      Prompt prompt;
      prompt.ids = tokenizer.encode(text).ids;
      prompt.text = text;
      prompt.row = {{"prompt", text}};
      prompt.location.line = std::ssize(prompts_) + 1;
      prompts_.push_back(std::move(prompt));
    }
  }
  int64_t size() const override { return std::ssize(prompts_); }
  Prompt at(int64_t index) const override { return prompts_.at(static_cast<size_t>(index)); }
  Json row(int64_t index) const override { return at(index).row; }
  std::string location_name(const RowLocation& location) const override {
    return "memory:" + std::to_string(location.line);
  }
  const PromptReport& report() const override { return report_; }

 private:
  std::vector<Prompt> prompts_;
  PromptReport report_;
};

/// The share of a letter among the characters; NaN or a constant for prompts that contain a word.
class LetterReward final : public RewardSource {
 public:
  std::string name() const override { return "letter"; }
  std::vector<double> score(std::span<const RewardRequest> requests) override {
    std::vector<double> scores;
    for (const auto& request : requests) {
      const auto count = std::count(request.completion.begin(), request.completion.end(), 'e');
      const auto length = std::max<size_t>(1, request.completion.size());
      double score = static_cast<double>(count) / static_cast<double>(length);
      if (request.prompt.find("unknown") != std::string::npos) {
        score = std::nan("");
      }
      if (request.prompt.find("constant") != std::string::npos) {
        score = 0.5;
      }
      scores.push_back(score);
    }
    return scores;
  }
};

inline std::filesystem::path online_model() {
  return fixtures() / "training" / "models" / "policy";
}

class OnlineCase {
 public:
  explicit OnlineCase(OnlineEstimator estimator,
                      bool use_lora = false,
                      std::optional<at::ScalarType> dtype = {},
                      std::optional<QuantizationConfig> quantization = {})
      : dtype_(dtype) {
    policy = load_model(online_model(), {.dtype = dtype_, .quantization = std::move(quantization)})
                 .model;
    if (use_lora) {
      lora.rank = 4;
      lora.dropout = 0;
      add_lora(*policy, lora, /*seed=*/3);
    }
    tokenizer = Tokenizer::open(online_model());
    prompts = with_prompts({"The cat", "A dog and", "Where is the", "Tell me", "Why", "One two"});
    rewards = std::make_shared<RewardList>(
        std::vector<WeightedReward>{{std::make_shared<LetterReward>(), 1.0}});
    options.estimator = estimator;
    options.training.batch_size = 4;
    options.training.accumulation = 2;
    options.training.max_steps = 3;
    options.training.learning_rate = 2e-3;
    options.training.collate.pad_id = 0;
    options.training.save_steps = 0;
    options.training.dropout = false;
    options.rollout.generate.max_new_tokens = 8;
    options.rollout.generate.samples_per_prompt = compares_groups(estimator) ? 4 : 1;
    options.rollout.generate.sampling.temperature = 0.9;
    options.rollout.generate.stop_ids = {2};
    options.rollout.generate.pad_id = 0;
    options.samples_steps = 2;
    if (estimator == OnlineEstimator::Gae) {
      LoadOptions load;
      load.head = HeadKind::Value;
      load.seed = 5;
      load.dtype = dtype_;
      critic = load_model(online_model(), load).model;
      options.policy.loss = PolicyLoss::Ppo;
      options.critic_learning_rate = 1e-3;
    }
  }

  /// A reference, and what makes it count.
  void add_reference_in_loss(double beta) {
    options.policy.beta = beta;
    add_reference();
  }
  void add_reference_in_reward(double coefficient) {
    options.kl_reward_coef = coefficient;
    add_reference();
  }

  /// Texts whose likelihood is learned too.
  void add_pretraining(const std::filesystem::path& cache) {
    DatasetOptions files;
    files.files = {{fixtures() / "training" / "data" / "sft_text.jsonl"}};
    files.cache = cache;
    files.tokenizer_key = "fixture";
    pretraining = open_dataset(RowTokenizer(tokenizer, {}), files).dataset;
    options.pretraining_coef = 0.5;
  }

  std::shared_ptr<const PromptSet> with_prompts(const std::vector<std::string>& texts) const {
    return std::make_shared<FixedPrompts>(*tokenizer, texts);
  }

  void checkpoint(const CheckpointOptions& how = {}) const {
    policy->enable_checkpointing(BlockChoice::all(), how);
    if (critic != nullptr) {
      critic->enable_checkpointing(BlockChoice::all(), how);
    }
  }

  TrainingSummary train(TrainingObserver& observer, const std::filesystem::path& output) {
    options.training.output = output;
    return train_online({policy,
                         critic,
                         reference,
                         rewards,
                         prompts,
                         eval_prompts,
                         pretraining,
                         tokenizer,
                         [this](const std::filesystem::path& folder) { save(folder); },
                         resume_from},
                        options,
                        observer,
                        *world);
  }

  /// Shards the models over a world; after adapters and the reference are there.
  void shard_over(const World& processes, Parallel strategy) {
    world = &processes;
    const ShardOptions how{.strategy = strategy};
    shard(*policy, processes, how);
    if (critic != nullptr) {
      shard(*critic, processes, how);
    }
    if (reference_model != nullptr && strategy == Parallel::Fsdp) {
      shard(*reference_model, processes, how);
    }
  }

  void save(const std::filesystem::path& folder) const {
    if (has_lora(*policy)) {
      save_adapter(*policy, folder, lora);
    } else {
      save_model(*policy, folder);
    }
    if (critic != nullptr) {
      save_model(*critic, folder / "critic");
    }
  }

  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all;
    for (const auto& model : {policy, critic}) {
      if (model != nullptr) {
        for (const auto& [name, parameter] : trained_parameters(*model)) {
          all.push_back(parameter.detach().clone());
        }
      }
    }
    return all;
  }

  std::shared_ptr<Model> policy, critic;
  std::shared_ptr<Model> reference_model;  ///< null: none of its own
  const World* world = &World::single();
  std::optional<Reference> reference;
  std::shared_ptr<RewardList> rewards;
  std::shared_ptr<const PromptSet> prompts, eval_prompts;
  std::shared_ptr<const Dataset> pretraining;
  std::shared_ptr<const Tokenizer> tokenizer;
  OnlineOptions options;
  LoraConfig lora;
  std::filesystem::path resume_from;

 private:
  void add_reference() {
    if (has_lora(*policy)) {
      reference = Reference::without_adapters(policy);
    } else {
      reference_model = load_model(online_model(), {.dtype = dtype_}).model;
      reference = Reference(reference_model);
    }
  }

  std::optional<at::ScalarType> dtype_;  // unset: the stored one
};

}  // namespace reprise::testing
