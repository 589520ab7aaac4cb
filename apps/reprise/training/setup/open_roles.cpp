#include "reprise/training/setup/open_roles.h"

#include "reprise/adapter_folder.h"
#include "reprise/training/options/online_options.h"
#include "reprise/training/setup/open_data.h"
#include "reprise/training/setup/open_model.h"
#include "reprise/training/setup/open_reference.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>
#include <reprise/train/checkpointing_effect.h>
#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <string>

namespace reprise::app {

namespace {

constexpr const char* kCriticFolder = "critic";

struct CriticSource {
  std::string folder;
  std::string reason;
};

// A critic needs the policy's tokenizer, so a reward model with another one cannot become the
// critic.
CriticSource critic_source(const TrainingFlags& flags) {
  if (!flags.critic_model.empty()) {
    TORCH_CHECK(!is_adapter_folder(flags.critic_model),
                "--critic_model ",
                flags.critic_model,
                ": is a LoRA adapter; make a model of it first, by ",
                merge_command(flags.critic_model));
    return {flags.critic_model, "--critic_model"};
  }
  if (flags.reward_model.size() != 1) {
    return {flags.model, "the policy's model, with a new head"};
  }
  const auto& reward_model = flags.reward_model.front();
  if (tokenizer_key(reward_model) != tokenizer_key(tokenizer_folder(flags))) {
    return {flags.model,
            "the policy's model, with a new head: the reward model's tokenizer differs"};
  }
  return {reward_model, "the reward model"};
}

// Before weights are read.
void check_critic(const std::string& folder,
                  const Tokenizer& tokenizer,
                  const TrainingFlags& flags) {
  const auto config = ModelConfig::read(folder, other_part(flags));
  TORCH_CHECK(tokenizer.size() <= config.vocabulary,
              "critic ",
              folder,
              ": has ",
              config.vocabulary,
              " tokens, fewer than the policy's tokenizer (",
              tokenizer.size(),
              "), whose tokens it must judge");
  const int64_t used = flags.max_prompt_length > 0
                           ? flags.max_prompt_length + flags.max_completion_length
                           : ModelConfig::read(flags.model, trained_part(flags)).max_positions;
  const bool may_exceed = flags.allow_untrained_positions && !config.has_learned_positions;
  TORCH_CHECK(may_exceed || used <= config.max_positions,
              "critic ",
              folder,
              ": has ",
              config.max_positions,
              " positions, fewer than a prompt with its completion can have (",
              used,
              "). Lower --max_prompt_length and --max_completion_length.");
}

}  // namespace

Roles open_roles(const TrainingFlags& flags,
                 const Tokenizer& tokenizer,
                 const RunWorld& world,
                 ProgressLine& progress) {
  Roles roles;
  const bool has_reference = needs_reference(online_options(flags));
  const bool has_critic = flags.objective == Objective::Ppo;
  const auto source = has_critic ? critic_source(flags) : CriticSource();
  if (has_critic) {
    check_critic(source.folder, tokenizer, flags);
  }
  roles.policy = open_trained_model(flags, has_reference, world, progress);
  if (has_reference) {
    roles.reference = open_reference(flags, roles.policy, world, progress);
  }
  if (has_critic) {
    progress.print("critic: " + source.folder + " (" + source.reason + ")");
    roles.critic = open_critic(source.folder, flags, world, progress);
    progress.print("activation checkpointing of the critic: " +
                   describe_checkpointing(*roles.critic->model).description);
  }
  return roles;
}

void save_roles(const Roles& roles, const std::filesystem::path& folder) {
  save_trained_model(roles.policy, folder);
  if (roles.critic) {
    create_folder(folder / kCriticFolder);
    save_trained_model(*roles.critic, folder / kCriticFolder);
  }
}

void load_roles(const Roles& roles, const std::filesystem::path& checkpoint) {
  load_trained(*roles.policy.model, checkpoint);
  if (roles.critic) {
    load_trained(*roles.critic->model, checkpoint / kCriticFolder);
  }
}

}  // namespace reprise::app
