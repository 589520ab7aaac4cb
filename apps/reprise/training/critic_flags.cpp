// Flags of the critic, which only ppo has, and of pretraining beside it.
#include "reprise/training/flag_spec.h"

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

void add_pretraining(FlagList& list) {
  list.add("ptx_data",
           &Flags::ptx_data,
           "FILE[:WEIGHT]...",
           "Rows as of reprise sft, learned beside the completions (PPO-ptx)")
      .joined()
      .aliases({"ptx_dataset"});
  list.add("ptx_coef", &Flags::ptx_coef, "NUMBER", "Weight of their loss").above(0);
  list.add("ptx_max_length", &Flags::ptx_max_length, "TOKENS", "Longer rows are cut").at_least(1);
  list.add("cache_dir", &Flags::cache_dir, "DIR", "Where those rows are kept, tokenised")
      .if_unset("~/.cache/reprise");
}

}  // namespace

void add_critic_flags(FlagList& list) {
  list.begin_group("Critic");
  list.add("critic_model", &Flags::critic_model, "DIR", "Folder of the model it starts from")
      .if_unset("the reward model if there is one with the policy's tokenizer, else --model")
      .aliases({"critic_pretrain", "critic.model_name_or_path"});
  list.add("critic_use_peft",
           &Flags::critic_use_peft,
           "BOOL",
           "Train it by LoRA too, with the policy's settings; else whole");
  list.add("critic_learning_rate", &Flags::critic_learning_rate, "NUMBER", "Its learning rate")
      .above(0)
      .aliases({"critic_lr", "critic.adam.lr"});
  list.add("critic_warmup_steps",
           &Flags::critic_warmup_steps,
           "STEPS",
           "First optimizer steps, in which only the critic learns")
      .at_least(0)
      .aliases({"freezing_actor_steps"});
  list.add("lambda",
           &Flags::lambda,
           "SHARE",
           "Advantages: 1 trusts the rewards, 0 the critic's next value")
      .between(0, 1)
      .aliases({"lam", "lambd", "algo.advantage.lambd"});
  list.add("value_clip",
           &Flags::value_clip,
           "NUMBER",
           "How far a value may move from what it was; 0: anywhere")
      .at_least(0)
      .aliases({"cliprange_value", "critic.value_clip"});
  list.add("vf_coef", &Flags::vf_coef, "NUMBER", "Weight of its loss").above(0);
  list.begin_group("Pretraining data");
  add_pretraining(list);
}

}  // namespace reprise::app
