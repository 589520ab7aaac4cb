// Flags of rewards: where they come from, and what is made of them before they become advantages.
#include "reprise/training/flag_spec.h"

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
           "exact_match, last_number, boxed, regex:pattern=..., format, length:limit=...; "
           "docs/rl.md "
           "has their settings")
      .many()
      .aliases({"reward_funcs"});
  list.add("reward_command",
           &Flags::reward_command,
           "COMMAND",
           "A process that reads completions as JSON lines and prints numbers");
  list.add("reward_url", &Flags::reward_url, "URL", "A server that is sent completions by POST")
      .aliases({"remote_rm_url", "reward.remote_url"});
  list.add("reward_url_format", &Flags::reward_url_format, "NAME", "What that server is sent")
      .one_of({"requests", "openrlhf"});
  list.add("reward_timeout",
           &Flags::reward_timeout,
           "SECONDS",
           "How long command and server may take for a call")
      .between(0.001, 1e6);
  list.add("reward_weights",
           &Flags::reward_weights,
           "NUMBER...",
           "Of models, functions, command and URL, in this order")
      .many_with_commas()
      .if_unset("1 each");
}

void add_model_settings(FlagList& list) {
  list.add("reward_batch_size",
           &Flags::reward_batch_size,
           "ROWS",
           "Completions that a reward model scores at once")
      .at_least(1);
  list.add("reward_text",
           &Flags::reward_text,
           "NAME",
           "How a reward model reads: chats as chats and text as text, or always one of them")
      .one_of({"as_requested", "text", "chat"});
  list.add("reward_pooling", &Flags::reward_pooling, "NAME", "As --pooling of reprise rm")
      .one_of({"rightmost_not_pad", "last_attended"});
  list.add("normalize_reward",
           &Flags::normalize_reward,
           "BOOL",
           "Reward models: by mean and deviation that reprise rm left in their config.json")
      .aliases({"reward.normalize_enable"});
  list.add("offload_reward",
           &Flags::offload_reward,
           "BOOL",
           "Keep the weights of reward models on the CPU between their passes")
      .aliases({"reward.offload"});
}

void add_shaping(FlagList& list, Objective objective) {
  list.add(
          "reward_clip_range", &Flags::reward_clip_range, "LEAST GREATEST", "Rewards are cut to it")
      .many_with_commas()
      .if_unset("not cut")
      .aliases({"reward.clip_range"});
  list.add("missing_eos_penalty",
           &Flags::missing_eos_penalty,
           "NUMBER",
           "Taken from the reward of completions that did not end; 0: none")
      .at_least(0);
  list.add("overlong_buffer",
           &Flags::overlong_buffer,
           "TOKENS",
           "Last tokens before the limit, in which a penalty grows; 0: none")
      .at_least(0)
      .aliases({"overlong_buffer_len", "reward.overlong_buffer_len"});
  list.add("overlong_factor", &Flags::overlong_factor, "NUMBER", "What that penalty grows to")
      .above(0)
      .aliases({"overlong_penalty_factor", "reward.overlong_penalty_factor"});
  list.add("dynamic_filtering",
           &Flags::dynamic_filtering,
           "BOOL",
           "Replace groups whose rewards are all equal by those of further prompts")
      .aliases({"algo.dynamic_filtering_enable"});
  list.add("filter_range",
           &Flags::filter_range,
           "LEAST GREATEST",
           "Also replace groups whose mean reward is not between these")
      .many_with_commas()
      .aliases({"dynamic_filtering_range", "algo.dynamic_filtering_range"});
  list.add("filter_attempts",
           &Flags::filter_attempts,
           "COUNT",
           "Rollouts for one generation batch at most")
      .at_least(1);
  if (objective == Objective::Ppo) {
    list.add("score_place",
             &Flags::score_place,
             "NAME",
             "Where a completion's reward is given: at its end, or at every token (ColossalChat)")
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
