// Flags for the critic and the pretraining data of ppo.
#include "reprise/training/flags/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_pretraining(FlagList& list) {
  list.add("ptx_data",
           &Flags::ptx_data,
           "FILE[:WEIGHT]...",
           "Rows as for reprise sft, trained on besides the completions (PPO-ptx)")
      .joined()
      .aliases({"ptx_dataset"});
  list.add("ptx_coef", &Flags::ptx_coef, "NUMBER", "Weight of the loss on pretraining data")
      .above(0);
  list.add("ptx_max_length", &Flags::ptx_max_length, "TOKENS", "Longer rows are truncated")
      .at_least(1);
  list.add("cache_dir", &Flags::cache_dir, "DIR", "Cache for tokenised pretraining rows")
      .if_unset("~/.cache/reprise");
}

}  // namespace

void add_critic_flags(FlagList& list) {
  list.begin_group("Critic");
  list.add("critic_model",
           &Flags::critic_model,
           "DIR",
           "Folder of the model that the critic starts from")
      .if_unset("the reward model if there is one with the policy's tokenizer, otherwise --model")
      .aliases({"critic_pretrain", "critic.model_name_or_path"});
  list.add("critic_use_peft",
           &Flags::critic_use_peft,
           "BOOL",
           "Train LoRA adapters of the critic too, with the settings of the policy; false: train "
           "all its weights");
  list.add("critic_learning_rate",
           &Flags::critic_learning_rate,
           "NUMBER",
           "Peak learning rate of the critic")
      .above(0)
      .aliases({"critic_lr", "critic.adam.lr"});
  list.add("critic_warmup_steps",
           &Flags::critic_warmup_steps,
           "STEPS",
           "Number of optimizer steps at the start that train only the critic")
      .at_least(0)
      .aliases({"freezing_actor_steps"});
  list.add("lambda",
           &Flags::lambda,
           "FRACTION",
           "Lambda of GAE: 1 relies on the rewards, 0 on the critic's next value")
      .between(0, 1)
      .aliases({"lam", "lambd", "algo.advantage.lambd"});
  list.add("value_clip",
           &Flags::value_clip,
           "NUMBER",
           "Clip the change of a value to this; 0: no clipping")
      .at_least(0)
      .aliases({"cliprange_value", "critic.value_clip"});
  list.add("vf_coef", &Flags::vf_coef, "NUMBER", "Weight of the value loss").above(0);
  list.begin_group("Pretraining data");
  add_pretraining(list);
}

}  // namespace reprise::app
