// Flags for rewards: their sources, and how they are processed before advantages are computed.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_sources(FlagList& list) {
  list.add("reward_model", &Flags::reward_model, "DIR...", "Folders of reward models")
      .many()
      .aliases(
          {"reward_model_path", "reward_pretrain", "rm_pretrain", "reward.model_name_or_path"});
  list.add("reward_function",
           &Flags::reward_function,
           "SPEC...",
           "Reward functions: exact_match, last_number, boxed, regex:pattern=..., format, "
           "length:limit=...; docs/rl.md has their settings")
      .many()
      .aliases({"reward_funcs"});
  list.add("reward_command",
           &Flags::reward_command,
           "COMMAND",
           "Shell command of a process that reads completions as JSON lines and prints rewards");
  list.add("reward_url",
           &Flags::reward_url,
           "URL",
           "Server that receives completions by POST and returns rewards")
      .aliases({"remote_rm_url", "reward.remote_url"})
      .url();
  list.add("reward_auth_file",
           &Flags::reward_auth_file,
           "FILE",
           "File, yours alone (chmod 600), with the token for the server, sent as \"Authorization: "
           "Bearer TOKEN\"; or set REPRISE_REWARD_TOKEN")
      .if_unset("REPRISE_REWARD_TOKEN, if set");
  list.add("reward_url_format",
           &Flags::reward_url_format,
           "NAME",
           "Format of requests to the server")
      .one_of({"requests", "openrlhf"});
  list.add("reward_timeout",
           &Flags::reward_timeout,
           "SECONDS",
           "Time limit of the command and the server for one request")
      .between(0.001, 1e6);
  list.add("reward_weights",
           &Flags::reward_weights,
           "NUMBER...",
           "Weights of the rewards, in this order: models, functions, command, URL")
      .many_with_commas()
      .if_unset("1 for each");
}

void add_model_settings(FlagList& list) {
  list.add("reward_batch_size",
           &Flags::reward_batch_size,
           "ROWS",
           "Completions per batch of a reward model")
      .between(1, kMostOfABatch);
  list.add("reward_text",
           &Flags::reward_text,
           "NAME",
           "Input of a reward model: as_requested: chats for chat prompts, otherwise text; or "
           "always text or chat")
      .one_of({"as_requested", "text", "chat"});
  list.add("reward_pooling",
           &Flags::reward_pooling,
           "NAME",
           "Token whose score is the reward, as --pooling of reprise rm")
      .one_of({"last_attended", "rightmost_not_pad"});
  list.add("normalize_reward",
           &Flags::normalize_reward,
           "BOOL",
           "Normalise rewards of reward models by the mean and deviation that reprise rm stored in "
           "their config.json")
      .aliases({"reward.normalize_enable"});
  list.add("offload_reward",
           &Flags::offload_reward,
           "BOOL",
           "Keep the weights of reward models in CPU memory between their forward passes")
      .aliases({"reward.offload"});
}

void add_shaping(FlagList& list, Objective objective) {
  list.add("reward_clip_range", &Flags::reward_clip_range, "MIN MAX", "Clip rewards to this range")
      .many_with_commas()
      .if_unset("no clipping")
      .aliases({"reward.clip_range"});
  list.add("missing_eos_penalty",
           &Flags::missing_eos_penalty,
           "NUMBER",
           "Subtracted from the reward of truncated completions; 0: none")
      .at_least(0);
  list.add("overlong_buffer",
           &Flags::overlong_buffer,
           "TOKENS",
           "Number of tokens before the length limit in which a penalty grows linearly; 0: no "
           "penalty")
      .at_least(0)
      .aliases({"overlong_buffer_len", "reward.overlong_buffer_len"});
  list.add("overlong_factor",
           &Flags::overlong_factor,
           "NUMBER",
           "Size of the penalty at the length limit")
      .above(0)
      .aliases({"overlong_penalty_factor", "reward.overlong_penalty_factor"});
  list.add("dynamic_filtering",
           &Flags::dynamic_filtering,
           "BOOL",
           "Replace groups whose rewards are all equal by groups of other prompts")
      .aliases({"algo.dynamic_filtering_enable"});
  list.add("filter_range",
           &Flags::filter_range,
           "MIN MAX",
           "Also replace groups whose mean reward is outside this range")
      .many_with_commas()
      .aliases({"dynamic_filtering_range", "algo.dynamic_filtering_range"});
  list.add("filter_attempts",
           &Flags::filter_attempts,
           "COUNT",
           "Largest number of rollouts for one generation batch")
      .at_least(1);
  if (objective == Objective::Ppo) {
    list.add("score_place",
             &Flags::score_place,
             "NAME",
             "Where the reward of a completion is placed: at its last token or at every token "
             "(ColossalChat)")
        .one_of({"last_token", "every_token"});
  }
}

}  // namespace

void add_reward_flags(FlagList& list, Objective objective) {
  list.begin_group("Rewards (at least one)");
  add_sources(list);
  add_model_settings(list);
  add_shaping(list, objective);
}

}  // namespace reprise::app
