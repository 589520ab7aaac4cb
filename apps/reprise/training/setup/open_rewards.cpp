#include "reprise/training/setup/open_rewards.h"

#include "reprise/adapter_folder.h"
#include "reprise/reward_pad.h"
#include "reprise/training/setup/check_command.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/dist/secret.h>
#include <reprise/io/file.h>
#include <reprise/model/config.h>
#include <reprise/reward/command.h>
#include <reprise/reward/model.h>
#include <reprise/reward/url.h>
#include <reprise/reward/verifiers.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;
using Sources = std::vector<std::shared_ptr<RewardSource>>;

std::chrono::milliseconds timeout_of(const TrainingFlags& flags) {
  return std::chrono::round<std::chrono::milliseconds>(
      std::chrono::duration<double>(flags.reward_timeout));
}

// The header that tells the server who asks. A file's line with a space in it is the whole header
// ("Basic dXNlcjpw"), else a token.
std::string authorization_of(const TrainingFlags& flags) {
  const char* variable = std::getenv("REPRISE_REWARD_TOKEN");
  std::string token = variable == nullptr ? "" : variable;
  if (!flags.reward_auth_file.empty()) {
    TORCH_CHECK(token.empty(),
                "--reward_auth_file and REPRISE_REWARD_TOKEN are both set; expected one of them");
    token = read_secret_file(flags.reward_auth_file, "--reward_auth_file");
    TORCH_CHECK(!token.empty(), "--reward_auth_file ", flags.reward_auth_file, ": is empty");
  }
  return token.empty() || token.find(' ') != std::string::npos ? token : "Bearer " + token;
}

// Rewards that need no model.
Sources light_sources(const TrainingFlags& flags) {
  Sources sources;
  for (const auto& spec : flags.reward_function) {
    sources.push_back(make_verifier(spec));
  }
  if (!flags.reward_command.empty()) {
    CommandRewardOptions options;
    options.command = flags.reward_command;
    options.timeout = timeout_of(flags);
    sources.push_back(make_command_reward(std::move(options)));
  }
  if (!flags.reward_url.empty()) {
    UrlRewardOptions options;
    options.url = flags.reward_url;
    options.authorization = authorization_of(flags);
    options.format = flags.reward_url_format == "openrlhf" ? UrlRewardFormat::OpenRlhf
                                                           : UrlRewardFormat::Requests;
    options.timeout = timeout_of(flags);
    sources.push_back(make_url_reward(std::move(options)));
  }
  return sources;
}

// Before training: otherwise a row that cannot be scored would end the run later.
void check_rows(const Sources& sources, const PromptSet& prompts) {
  for (int64_t i = 0; i < prompts.size(); ++i) {
    const Json row = prompts.row(i);
    try {
      for (const auto& source : sources) {
        source->check(row);
      }
    } catch (const c10::Error& error) {
      TORCH_CHECK(false,
                  prompts.location_name(prompts.at(i).location),
                  ": ",
                  error.what_without_backtrace());
    }
  }
}

// A model without a score head would get a random one, and its rewards would be noise.
void check_is_reward_model(const std::string& folder) {
  TORCH_CHECK(!is_adapter_folder(folder),
              "--reward_model ",
              folder,
              ": is a LoRA adapter; make a model of it first, by ",
              merge_command(folder));
  const auto architecture = ModelConfig::read(folder).architecture;
  TORCH_CHECK(architecture.ends_with("ForSequenceClassification"),
              "--reward_model ",
              folder,
              ": expected a reward model, as reprise rm makes them (…ForSequenceClassification); "
              "config.json says ",
              architecture.empty() ? "nothing" : architecture);
}

RewardText text_named(const std::string& name) {
  return name == "chat"   ? RewardText::Chat
         : name == "text" ? RewardText::Text
                          : RewardText::AsRequested;
}

std::shared_ptr<RewardSource> open_reward_model(const std::string& folder,
                                                const TrainingFlags& flags,
                                                const RunWorld& world,
                                                ProgressLine& progress) {
  check_is_reward_model(folder);
  ModelRewardOptions options;
  const auto name = fs::path(folder).lexically_normal();
  options.name = (name.has_filename() ? name : name.parent_path()).filename().string();
  options.batch_size = flags.reward_batch_size;
  options.pooling = pooling_named(flags.reward_pooling);
  options.is_normalized = flags.normalize_reward;
  options.is_offloaded = flags.offload_reward;
  options.text = text_named(flags.reward_text);
  auto model = open_frozen_model(folder, HeadKind::Score, flags, world, progress);
  auto tokenizer = Tokenizer::open(folder);
  const auto warning = ambiguous_reward(*model, *tokenizer, options.pooling);
  if (!warning.empty()) {
    progress.print("warning: --reward_model " + folder + ": " + warning);
  }
  return make_model_reward(std::move(model), std::move(tokenizer), options);
}

}  // namespace

void check_rewards(const TrainingFlags& flags) {
  light_sources(flags);
  if (!flags.reward_command.empty()) {
    check_command("--reward_command", flags.reward_command);
  }
  for (const auto& folder : flags.reward_model) {
    check_is_reward_model(folder);
  }
}

std::shared_ptr<RewardList> open_rewards(const TrainingFlags& flags,
                                         const PromptSet& prompts,
                                         const PromptSet* evaluation,
                                         const RunWorld& world,
                                         ProgressLine& progress) {
  Sources light;
  world.world().run_on_all("opening the rewards", [&] {
    light = light_sources(flags);
    check_rows(light, prompts);
    if (evaluation != nullptr) {
      check_rows(light, *evaluation);
    }
  });
  Sources sources;
  for (const auto& folder : flags.reward_model) {
    sources.push_back(open_reward_model(folder, flags, world, progress));
  }
  sources.insert(sources.end(), light.begin(), light.end());
  std::vector<WeightedReward> weighted;
  for (size_t i = 0; i < sources.size(); ++i) {
    weighted.push_back({sources[i], flags.reward_weights.empty() ? 1 : flags.reward_weights[i]});
  }
  auto rewards = std::make_shared<RewardList>(std::move(weighted));
  progress.print("rewards: " + c10::Join(", ", rewards->names()));
  return rewards;
}

}  // namespace reprise::app
