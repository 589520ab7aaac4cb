// Checks all inputs first, expensive ones last; then trains and saves.
#include "reprise/training/run/run_online.h"

#include "reprise/model_options.h"
#include "reprise/training/options/online_options.h"
#include "reprise/training/options/trainer_options.h"
#include "reprise/training/run/training_run.h"
#include "reprise/training/setup/open_data.h"
#include "reprise/training/setup/open_model.h"
#include "reprise/training/setup/open_prompt_data.h"
#include "reprise/training/setup/open_rewards.h"
#include "reprise/training/setup/open_roles.h"

#include <reprise/train/online.h>

#include <c10/util/Exception.h>

#include <filesystem>
#include <utility>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

// Without an end token every completion would be truncated at the limit.
void check_can_end(const TrainingFlags& flags, const OnlineOptions& options) {
  TORCH_CHECK(!options.rollout.generate.stop_ids.empty() || !flags.stop_strings.empty(),
              flags.model,
              ": neither generation_config.json, config.json nor the tokenizer names an end token: "
              "no completion would ever end. Give --stop_strings.");
}

OnlineOptions all_options(const TrainingFlags& flags,
                          const Json& configuration,
                          const PromptData& data,
                          const ModelConfig& config,
                          const World& world) {
  auto options = online_options(flags);
  options.training = trainer_options(flags, configuration, data.key, world);
  auto& generate = options.rollout.generate;
  generate.stop_ids = stop_ids_of(flags.model, config, data.tokenizer.get());
  generate.pad_id = pad_id_of(*data.tokenizer);
  generate.decode = [tokenizer = data.tokenizer](const TokenIds& ids) {
    return tokenizer->decode(ids, /*skip_special_tokens=*/true);
  };
  options.training.collate.pad_id = generate.pad_id;
  check_can_end(flags, options);
  validate(options, world.size());
  return options;
}

}  // namespace

void run_online(const TrainingFlags& flags, const Json& configuration, const RunWorld& world) {
  TrainingRun run(flags, configuration, world);
  const auto config = ModelConfig::read(flags.model, trained_part(flags));
  run.line().phase("tokenising " + flags.data);
  const auto data = world.first_then_others(
      "reading " + flags.data, [&] { return open_prompt_data(flags, config, run.line()); });
  world.check_same_data(flags);
  run.record({{"truncation", data.truncation}, {"eval_truncation", data.evaluation_truncation}});
  const auto options =
      all_options(flags, run.recorded_configuration(), data, config, world.world());
  run.line().phase("opening rewards");
  const auto rewards = open_rewards(flags, *data.train, data.evaluation.get(), world, run.line());
  run.line().phase("loading " + flags.model);
  const auto roles = open_roles(flags, *data.tokenizer, world, run.line());
  TrainingObserver& observer = run.begin(*roles.policy.model, data.key);
  OnlineJob job;
  job.policy = roles.policy.model;
  job.critic = roles.critic ? roles.critic->model : nullptr;
  job.reference = roles.reference;
  job.rewards = rewards;
  job.prompts = data.train;
  job.eval_prompts = data.evaluation;
  job.pretraining = data.pretraining;
  job.tokenizer = data.tokenizer;
  job.save_models = [&](const fs::path& folder) { save_roles(roles, folder); };
  job.resume_from = run.resume_from();
  const auto summary = train_online(job, options, observer, world.world());

  if (summary.end != TrainingEnd::Stopped) {
    if (run.takes_best(summary)) {
      load_roles(roles, summary.best_checkpoint);
      run.line().print("using the best model, of " + summary.best_checkpoint.string());
    }
    save_roles(roles, flags.output_dir);
  }
  run.finish(summary, *roles.policy.model);
}

}  // namespace reprise::app
