// Flags that would be ignored are refused with the reason; so are contradictions.
#include "app/training_flags.h"
#include "reprise/training/flags/parallel_flags.h"
#include "reprise/training/options/checkpointing_request.h"

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

using enum Objective;

class FlagEffects : public ::testing::TestWithParam<Refusal> {};

TEST_P(FlagEffects, WithoutEffectIsRefusedWithTheReason) {
  expect_refused(GetParam());
}

const Refusal kFlagRefusals[] = {
    {Sft, {"--bf16", "--dtype", "bfloat16"}, "--bf16 keeps the weights in float32"},
    {Sft, {"--cast_lm_head_to_fp32", "--dtype", "float32"}, "the head is already in float32"},
    {Sft,
     {"--attention", "flash", "--device", "cpu"},
     "--attention flash has no effect with --device cpu"},
    {Dpo,
     {"--attention", "cudnn", "--deterministic"},
     "--attention cudnn does not work with --deterministic"},
    {Sft, {"--attention", "cudnn", "--packing"}, "has no effect with --packing_strategy bfd"},
    {Sft, {"--attention", "cudnn", "--padding_free"}, "has no effect with --padding_free"},
    {Sft,
     {"--lora_dropout", "0.1", "--disable_dropout"},
     "--lora_dropout has no effect because dropout is off"},
    {Dpo, {"--lora_dropout", "0.1"}, "give --disable_dropout false"},
    {Sft,
     {"--adapter", "a", "--use_peft", "false"},
     "a is a LoRA adapter: make a model of it first"},
    {Sft,
     {"--use_dora", "--init_lora_weights", "pissa"},
     "--use_dora cannot be combined with --init_lora_weights pissa"},
    {Sft, {"--init_lora_weights", "loftq"}, "found \"loftq\", which needs a quantised base model"},
    {Sft, {"--init_lora_weights", "pissa_niter_x"}, "pissa_niter_N or olora, found"},
    {Sft, {"--lora_rank_pattern", "q_proj"}, "expected PATTERN=RANK, a whole number of at least 1"},
    {Sft, {"--lora_rank_pattern", "q_proj=0"}, "such as q_proj=4, found \"q_proj=0\""},
    {Sft, {"--lora_rank_pattern", "q_proj=99999999999999999999"}, "expected PATTERN=RANK"},
    {Sft, {"--lora_alpha_pattern", "q_proj=nan"}, "--lora_alpha_pattern: expected PATTERN=NUMBER"},
    {Sft, {"--lora_alpha_pattern", "=4"}, "--lora_alpha_pattern: expected PATTERN=NUMBER"},
    {Sft,
     {"--layers_to_transform", "0", "--lora_r", "4"},
     "--layers_to_transform needs --lora_target_modules with names"},
    {Sft,
     {"--lora_target_modules", "q_proj", "--layers_to_transform", "first"},
     "expected numbers of blocks, from 0, found \"first\""},
    {Sft,
     {"--load_in_4bit"},
     "--load_in_4bit: quantised weights cannot be trained, only adapters on them: give --lora_r "
     "16"},
    {Dpo,
     {"--load_in_8bit", "--load_in_4bit", "--lora_r", "4"},
     "--load_in_8bit with --load_in_4bit: give one of them"},
    {Sft,
     {"--lora_r", "4", "--bnb_4bit_quant_type", "nf4"},
     "--bnb_4bit_quant_type has no effect without --load_in_4bit"},
    {Sft,
     {"--lora_r", "4", "--load_in_8bit", "--use_bnb_nested_quant"},
     "--use_bnb_nested_quant has no effect without --load_in_4bit"},
    {Grpo,
     {"--lora_r", "4", "--load_in_8bit", "--bnb_4bit_compute_dtype", "bfloat16"},
     "--bnb_4bit_compute_dtype has no effect without --load_in_4bit"},
    {Sft,
     {"--lora_r", "4", "--llm_int8_skip_modules", "down_proj"},
     "--llm_int8_skip_modules has no effect without --load_in_4bit or --load_in_8bit"},
    {Sft,
     {"--lora_r", "4", "--load_in_4bit", "--parallel", "fsdp"},
     "--load_in_4bit with --parallel fsdp, which cannot shard a quantised model"},
    {Sft, {"--base", "b"}, "--base has no effect: --model m is no adapter's folder"},
    {Sft, {"--max_length", "0", "--drop_too_long"}, "no row is too long"},
    {Sft, {"--max_length", "0", "--packing"}, "--packing has no effect with --max_length 0"},
    {Sft, {"--drop_too_long", "--truncation_mode", "keep_end"}, "no row is cut"},
    {Sft,
     {"--packing", "--truncation_mode", "keep_end"},
     "--truncation_mode has no effect with --packing"},
    {Sft, {"--packing", "--padding_free"}, "--padding_free has no effect with --packing"},
    {Sft, {"--packing_strategy", "bfd"}, "--packing_strategy has no effect without --packing"},
    {Sft, {"--eval_data", "e", "--eval_packing"}, "--eval_packing has no effect without --packing"},
    {Sft, {"--trained_turns", "last"}, "without --assistant_only_loss"},
    {Sft, {"--max_samples", "0"}, "--max_samples 0 leaves no rows"},
    {Sft,
     {"--max_steps", "5", "--num_train_epochs", "3"},
     "--num_train_epochs has no effect with --max_steps"},
    {Sft, {"--max_steps", "0"}, "--max_steps 0 trains nothing"},
    {Sft,
     {"--warmup_steps", "5", "--warmup_ratio", "0.1"},
     "--warmup_ratio has no effect with --warmup_steps"},
    {Sft, {"--lr_scheduler_type", "constant", "--warmup_steps", "5"}, "use constant_with_warmup"},
    {Sft,
     {"--min_lr_ratio", "0.2"},
     "--min_lr_ratio has no effect with --lr_scheduler_type linear"},
    {Sft, {"--lr_decay_steps", "9"}, "it is for warmup_stable_decay"},
    {Sft, {"--lr_scheduler_type", "wsd"}, "wsd needs --lr_decay_steps"},
    {Sft, {"--optim", "sgd", "--adam_beta1", "0.8"}, "--adam_beta1 has no effect with --optim sgd"},
    {Sft, {"--momentum", "0.9"}, "--momentum has no effect with AdamW"},
    {Sft,
     {"--optim", "adamw_8bit", "--momentum", "0.9"},
     "--momentum has no effect with AdamW: it is for --optim rmsprop, sgd and muon"},
    {Sft,
     {"--optim", "lion", "--adam_epsilon", "1e-6"},
     "--adam_epsilon has no effect with --optim lion"},
    {Sft,
     {"--optim", "adafactor", "--adam_beta2", "0.9"},
     "--adam_beta2 has no effect with --optim adafactor"},
    {Sft, {"--muon_adjust_lr_fn", "original"}, "it is for muon"},
    {Sft,
     {"--optim", "paged_adamw_8bit"},
     "--optim: paged_adamw_8bit: state is not paged here: it stays on its device, or with "
     "--parallel "
     "fsdp --fsdp_cpu_offload in CPU memory. Use adamw_8bit"},
    {Sft, {"--optim", "adamw_8bits"}, "did you mean adamw_8bit"},
    {Sft,
     {"--optim", "muon", "--relative_step"},
     "--relative_step has no effect with --optim muon"},
    {Sft, {"--optim", "adafactor", "--warmup_init"}, "has no effect without --relative_step"},
    {Sft,
     {"--optim", "adafactor", "--relative_step", "--learning_rate", "1e-3"},
     "--learning_rate has no effect with --relative_step: Adafactor takes its own learning rate"},
    {Sft,
     {"--optim", "muon", "--parallel", "fsdp"},
     "--parallel fsdp: --optim muon updates whole parameters, and here a process has parts of "
     "them. "
     "Use --parallel ddp, or --optim adamw_8bit"},
    {Sft,
     {"--optim", "adafactor", "--parallel", "zero2"},
     "--parallel zero2: --optim adafactor updates whole parameters"},
    {Sft, {"--activation_memory_budget", "6"}, "bytes have a unit, as in 6GiB"},
    {Sft, {"--activation_memory_budget", "-2GiB"}, "expected from 1B to 1024TiB"},
    {Sft, {"--memory_budget", "lots"}, "--memory_budget lots: expected bytes with a unit"},
    {Sft, {"--memory_budget", "6GiB", "--activation_memory_budget", "2GiB"}, "give one of them"},
    {Sft,
     {"--activation_memory_budget", "0.5", "--gradient_checkpointing_policy", "attention"},
     "--gradient_checkpointing_policy has no effect within a memory budget"},
    {Sft,
     {"--activation_memory_budget", "0.5", "--gradient_checkpointing", "false"},
     "--gradient_checkpointing false contradicts a memory budget"},
    {Ppo,
     {"--memory_budget", "auto", "--critic.gradient_checkpointing_ratio", "0.5"},
     "--critic.gradient_checkpointing_ratio has no effect within a memory budget"},
    {Sft, {"--host_memory_budget", "6GiB"}, "--host_memory_budget has no effect without"},
    {Sft, {"--parallel", "tp"}, "--parallel tp: there is no tensor parallelism"},
    {Sft, {"--parallel", "pp"}, "there is no pipeline parallelism"},
    {Sft, {"--parallel", "3d"}, "there is no parallelism in three dimensions"},
    {Sft, {"--parallel", "hsdp"}, "--parallel hsdp: there is no sharding within each machine"},
    {Sft, {"--parallel", "zero3"}, "--parallel zero3: zero3 is called fsdp here"},
    {Sft, {"--parallel", "fsdp2"}, "fsdp2 is called fsdp here"},
    {Sft, {"--parallel", "some"}, "--parallel: expected ddp, zero2 or fsdp, found \"some\""},
    {Grpo, {"--tensor_parallel_size", "2"}, "--tensor_parallel_size: there is no tensor"},
    {Sft, {"--pipeline_parallel_size", "2"}, "there is no pipeline parallelism"},
    {Sft, {"--sequence_parallel_size=2"}, "there is no sequence parallelism"},
    {Sft, {"--context_parallel_size", "2"}, "there is no context parallelism"},
    {Sft, {"--expert_parallel_size", "2"}, "there is no expert parallelism"},
    {Sft, {"--tp", "2"}, "--tp: there is no tensor parallelism"},
    {Sft, {"ep=2"}, "--ep: there is no expert parallelism"},
    {Sft, {"--ds.ring_attn_size", "2"}, "there is no sequence parallelism"},
    {Sft, {"--ds.zero_stage", "3"}, "stage 3 --parallel fsdp"},
    {Sft, {"--fsdp", "full_shard"}, "is called --parallel fsdp here"},
    {Sft, {"--reduce_dtype", "int8"}, "--reduce_dtype"},
    {Sft, {"--comm_timeout", "0"}, "--comm_timeout: expected a number above 0"},
    {Sft, {"--device", "cpu", "--optimizer_offload"}, "--optimizer_offload has no effect with"},
    {Sft, {"--device", "cpu", "--gradient_offload"}, "--gradient_offload has no effect with"},
    {Sft, {"--host_memory_budget", "1GiB"}, "--optimizer_offload or --gradient_offload"},
    {Sft,
     {"--fsdp_cpu_offload", "--parallel", "fsdp", "--optimizer_offload"},
     "--optimizer_offload has no effect with --fsdp_cpu_offload"},
    {Sft, {"--fsdp_cpu_offload"}, "--fsdp_cpu_offload has no effect without --parallel fsdp"},
    {Sft,
     {"--fsdp_prefetch", "false", "--parallel", "zero2"},
     "--fsdp_prefetch has no effect without --parallel fsdp"},
    {Sft,
     {"--fsdp_cpu_offload", "--parallel", "fsdp", "--device", "cpu"},
     "--fsdp_cpu_offload has no effect with --device cpu"},
    {Kd,
     {"--parallel", "fsdp", "--teacher_offload"},
     "--teacher_offload has no effect with --parallel fsdp"},
    {Ppo,
     {"--parallel", "fsdp", "--offload_reward", "--reward_model", "r"},
     "--offload_reward has no effect with --parallel fsdp"},
    {Sft, {"--allow_lossy"}, "--allow_lossy has no effect without --activation_memory_budget"},
    {Sft, {"--auto_batch"}, "--auto_batch has no effect without --activation_memory_budget"},
    {Sft,
     {"--memory_budget", "max", "--host_memory_budget", "6GiB", "--device", "cpu"},
     "activations are already in CPU memory"},
    {Sft, {"--memory_budget", "max", "--host_memory_budget", "0.5"}, "expected bytes with a unit"},
    {Sft,
     {"--memory_plan", "p.json", "--memory_budget", "6GiB"},
     "--memory_budget has no effect with --memory_plan"},
    {Sft, {"--eval_steps", "5"}, "--eval_steps has no effect without --eval_data"},
    {Sft, {"--per_device_eval_batch_size", "5"}, "without --eval_data"},
    {Sft, {"--metric_for_best_model", "loss"}, "without --eval_data"},
    {Sft, {"--early_stopping_patience", "2"}, "without --eval_data"},
    {Sft, {"--eval_data", "e", "--load_best_model_at_end"}, "without --metric_for_best_model"},
    {Sft, {"--eval_data", "e", "--greater_is_better"}, "without --metric_for_best_model"},
    {Sft, {"--save_steps", "0", "--save_total_limit", "2"}, "no checkpoints are made"},
    {Sft,
     {"--resume_from_checkpoint", "auto", "--overwrite_output_dir"},
     "--overwrite_output_dir would remove"},
    {Rm,
     {"--loss_type", "logexp", "--use_margin"},
     "--use_margin has no effect with --loss_type logexp"},
    {Rm, {"--use_margin", "false", "--margin_key", "m"}, "--margin_key has no effect"},
    {Prm, {"--placeholder_token", "x"}, "it is for placeholders"},
    {Prm, {"--prm_convention", "placeholders", "--step_separator", "x"}, "it is for step_ends"},
    {Prm, {"--prm_convention", "placeholders"}, "needs --placeholder_token"},
    {Dpo,
     {"--loss_type", "simpo", "--ref_model", "r"},
     "--ref_model has no effect with --loss_type simpo, which has no reference"},
    {Dpo, {"--reference_free", "--precompute_ref_log_probs"}, "with --reference_free"},
    {Dpo, {"--lora_r", "4", "--ref_model", "r"}, "--ref_model has no effect with LoRA"},
    {Dpo, {"--use_peft", "--sync_ref_model"}, "--sync_ref_model has no effect with LoRA"},
    {Dpo, {"--sync_ref_model", "--precompute_ref_log_probs"}, "its log-probabilities are fixed"},
    {Dpo, {"--precompute_ref_batch_size", "4"}, "without --precompute_ref_log_probs"},
    {Kto, {"--ref_model_sync_steps", "4"}, "without --sync_ref_model"},
    {Dpo, {"--loss_type", "sigmoid", "--loss_weights", "1", "2"}, "2 weights for 1 losses"},
    // At their usual values as well as at others.
    {Dpo, {"--simpo_gamma", "0.5"}, "simpo_gamma has no effect on sigmoid"},
    {Dpo, {"--simpo_gamma", "0.7"}, "simpo_gamma has no effect on sigmoid"},
    {Dpo, {"--cpo_alpha", "1"}, "cpo_alpha has no effect on sigmoid"},
    {Dpo, {"--loss_type", "hinge,sft", "--discopop_tau", "0.05"}, "discopop_tau has no effect on"},
    {Dpo, {"--f_alpha_divergence_coef", "0.5"}, "f_alpha has no effect on sigmoid"},
    {Dpo,
     {"--loss_type", "ipo", "--label_smoothing", "0.1"},
     "label_smoothing has no effect on ipo"},
    {Dpo, {"--alphapo_alpha", "0.2"}, "alphapo_alpha has no effect on sigmoid"},
    {Dpo, {"--loss_type", "simpo", "--nll_loss_coef", "0.2"}, "use cpo_alpha"},
    {Dpo, {"--loss_type", "sft", "--beta", "0.1"}, "--beta has no effect with --loss_type sft"},
    {Dpo,
     {"--loss_type", "cpo", "--f_divergence_type", "reverse_kl"},
     "--f_divergence_type has no effect without a reference"},
    {Dpo, {"--loss_type", "exo_pair"}, "exo_pair needs a label_smoothing above 0"},
    {Kto, {"--shuffle", "true"}, "kto keeps the order of the file"},
    {Kto, {"--per_device_train_batch_size", "1"}, "needs at least 2"},
    {Kto, {"--eval_data", "e", "--per_device_eval_batch_size", "1"}, "needs at least 2"},
    {Kd, {"--jsd_beta", "0.1"}, "--jsd_beta has no effect with --divergence forward_kl"},
    {Kd, {"--kd_coef", "0"}, "does not use the teacher"},
    {Kd, {"--device", "cpu", "--teacher_offload"}, "the teacher is already in CPU memory"},
    {Sft,
     {"--gradient_checkpointing_ratio", "0.5"},
     "--gradient_checkpointing_ratio has no effect without --gradient_checkpointing"},
    {Sft, {"--gradient_checkpointing_kwargs", "{}"}, "without --gradient_checkpointing"},
};

INSTANTIATE_TEST_SUITE_P(Flags, FlagEffects, ::testing::ValuesIn(kFlagRefusals));

TEST(FlagsInCombination, TheSameFlagsAreTakenWhereTheyCount) {
  const std::pair<Objective, Words> accepted[] = {
      {Sft, {"--packing", "--packing_strategy", "wrapped"}},
      {Sft, {"--packing", "--packing_strategy", "wrapped", "--attention", "cudnn"}},
      {Sft, {"--attention", "math", "--deterministic", "--device", "cpu"}},
      {Dpo, {"--attention", "cudnn", "--full_determinism", "false"}},
      {Sft, {"--assistant_only_loss", "--trained_turns", "last"}},
      {Sft, {"--lr_scheduler_type", "wsd", "--lr_decay_steps", "9", "--min_lr_ratio", "0"}},
      {Sft, {"--lr_scheduler_type", "constant_with_warmup", "--warmup_ratio", "0.1"}},
      {Sft, {"--optim", "sgd", "--momentum", "0.9"}},
      {Sft, {"--optim", "muon", "--momentum", "0.9", "--adam_beta2", "0.95"}},
      {Sft, {"--optim", "muon", "--muon_adjust_lr_fn", "original", "--parallel", "ddp"}},
      {Sft, {"--optim", "lion_32bit", "--adam_beta2", "0.99"}},
      {Sft, {"--optim", "adamw_bnb_8bit", "--parallel", "fsdp", "--adam_epsilon", "1e-6"}},
      {Sft, {"--optim", "adafactor", "--relative_step", "--warmup_init", "--scale_parameter"}},
      {Sft, {"--load_best_model_at_end", "false", "--no_packing", "--eval_steps", "0"}},
      {Sft, {"--warmup_steps", "0", "--warmup_ratio", "0.1"}},
      {Sft, {"--gradient_checkpointing", "false", "--gradient_checkpointing_ratio", "0"}},
      {Sft,
       {"--save_steps",
        "0",
        "--save_total_limit",
        "2",
        "--eval_data",
        "e",
        "--metric_for_best_model",
        "loss"}},
      {Sft, {"--packing", "--eval_data", "e", "--eval_packing", "false"}},
      {Dpo, {"--loss_type", "simpo", "--simpo_gamma", "0.5", "--cpo_alpha", "1"}},
      {Dpo, {"--loss_type", "sigmoid,discopop", "--discopop_tau", "0.05"}},
      {Dpo, {"--f_divergence_type", "alpha_divergence", "--f_alpha_divergence_coef", "0.5"}},
      {Dpo, {"--loss_type", "ipo", "--label_smoothing", "0", "--nll_loss_coef", "0"}},
      {Dpo, {"--loss_type", "sigmoid,sft", "--beta", "0.1"}},
      {Dpo, {"--lora_dropout", "0"}},
      {Dpo, {"--disable_dropout", "false", "--lora_dropout", "0.1"}},
      {Dpo, {"--sync_ref_model", "--ref_model_mixup_alpha", "0.5", "--ref_model", "r"}},
      {Dpo, {"--sync_ref_model", "--parallel", "fsdp"}},
      {Dpo, {"--precompute_ref_log_probs", "--precompute_ref_batch_size", "4"}},
      {Kto, {"--shuffle", "false"}},
      {Kto, {"--loss_type", "apo_zero_unpaired", "--per_device_train_batch_size", "1"}},
      {Kd, {"--divergence", "jsd", "--jsd_beta", "0.1"}},
      {Prm, {"--step_separator", "", "--train_on_last_step_only"}}};
  for (const auto& [objective, words] : accepted) {
    EXPECT_EQ(parse_error(objective, words), "") << words.front();
  }
}

app::CheckpointingRequest sft_request(Words words) {
  words.insert(words.begin(), "--gradient_checkpointing");
  return app::checkpointing_request(parse(Sft, words));
}

TEST(CheckpointingRequest, IsOffUnlessAskedFor) {
  EXPECT_FALSE(app::checkpointing_request(parse(Sft)).enabled);
  const auto all = sft_request({});
  EXPECT_TRUE(all.enabled);
  EXPECT_EQ(all.blocks, "all");
  EXPECT_EQ(all.policy, "full");
  EXPECT_FALSE(all.use_reentrant);
}

TEST(CheckpointingRequest, IsLeftToThePlannerWithinABudget) {
  for (const Words& words : {Words{"--activation_memory_budget", "2GiB"},
                             Words{"--memory_budget", "auto", "--gradient_checkpointing"}}) {
    const auto flags = parse(Sft, words);
    const auto found = app::checkpointing_request(flags);
    EXPECT_TRUE(found.enabled);
    EXPECT_EQ(found.blocks, "all");
    EXPECT_EQ(found.policy, "planned");
    EXPECT_FALSE(found.use_reentrant);
  }
}

TEST(CheckpointingRequest, KeepsEverythingThatKwargsSay) {
  const auto asked =
      sft_request({"--gradient_checkpointing_kwargs",
                   R"({"use_reentrant": false, "every_n_layers": 2, "selective": true,)"
                   R"( "preserve_rng_state": false, "determinism_check": "none",)"
                   R"( "early_stop": false})"});
  EXPECT_EQ(asked.blocks, "every:2");
  EXPECT_EQ(asked.policy, "attention");
  EXPECT_FALSE(asked.preserve_rng_state);
  EXPECT_FALSE(asked.early_stop);
  EXPECT_EQ(asked.determinism_check, "none");
  EXPECT_TRUE(
      sft_request({"--gradient_checkpointing_kwargs", R"({"use_reentrant": true})"}).use_reentrant);
}

TEST(CheckpointingRequest, ChoosesBlocksByFlagOrByKey) {
  EXPECT_EQ(sft_request({"--gradient_checkpointing_ratio", "0.5"}).blocks, "ratio:0.5");
  EXPECT_EQ(sft_request({"--gradient_checkpointing_layers", "0-7,12"}).blocks, "list:0-7,12");
  EXPECT_EQ(sft_request({"--gradient_checkpointing_kwargs", R"({"ratio": 1})"}).blocks,
            "ratio:1.0");
  EXPECT_EQ(sft_request({"--gradient_checkpointing_kwargs", R"({"layers": [0, 3]})"}).blocks,
            "list:0,3");
  EXPECT_EQ(sft_request({"--gradient_checkpointing_policy", "matmuls"}).policy, "matmuls");
  // Said twice, but the same.
  EXPECT_EQ(sft_request({"--gradient_checkpointing_ratio",
                         "0.5",
                         "--gradient_checkpointing_kwargs",
                         R"({"ratio": 0.5})"})
                .blocks,
            "ratio:0.5");
}

TEST(WorldEffects, FlagsOfAWorldAreRefusedInAProcessOfItsOwn) {
  const Words words[] = {{"--parallel", "ddp"},
                         {"--parallel", "fsdp", "--fsdp_prefetch", "false"},
                         {"--reduce_dtype", "bfloat16"},
                         {"--comm_timeout", "60"}};
  for (const Words& each : words) {
    const auto flags = parse(Sft, each);
    expect_error(
        [&] { app::check_world_effects(flags, std::nullopt); },
        each.front() + " has no effect in one process: start with reprise launch --nproc N");
    app::check_world_effects(flags, 1);  // to be compared with more
    app::check_world_effects(flags, 2);
  }
  app::check_world_effects(parse(Sft), std::nullopt);
}

TEST(WorldEffects, BudgetsAreForEveryWorldAndTrialsOfSizesForNone) {
  const Words words[] = {{"--activation_memory_budget", "0.5"},
                         {"--memory_budget", "6GiB"},
                         {"--memory_plan", "plan.json"}};
  for (const Words& each : words) {
    app::check_world_effects(parse(Sft, each), std::nullopt);
    app::check_world_effects(parse(Sft, each), 2);
  }
  const auto trials = parse(Sft, {"--auto_batch", "--memory_budget", "6GiB"});
  app::check_world_effects(trials, std::nullopt);
  expect_error([&] { app::check_world_effects(trials, 2); }, "--auto_batch: sizes are tried by");
}

TEST(WorldEffects, RewardsComeBeforeTheOthersGiveUp) {
  for (const char* source : {"--reward_command", "--reward_url"}) {
    const Words words{source, "http://x", "--reward_timeout", "60", "--comm_timeout", "60"};
    const auto flags = parse(Grpo, words);
    app::check_world_effects(flags, 1);
    expect_error([&] { app::check_world_effects(flags, 2); },
                 "--reward_timeout 60: expected less than --comm_timeout 60");
    auto patient = flags;
    patient.comm_timeout = 61;
    app::check_world_effects(patient, 2);
  }
}

TEST(WorldEffects, FlagsBecomeShardOptions) {
  const auto usual = app::shard_options(parse(Sft));
  EXPECT_EQ(usual.strategy, Parallel::Ddp);
  EXPECT_FALSE(usual.reduce_dtype.has_value());
  EXPECT_TRUE(usual.prefetch);
  const auto given = app::shard_options(parse(Sft,
                                              {"--parallel",
                                               "fsdp",
                                               "--reduce_dtype",
                                               "bfloat16",
                                               "--no_fsdp_prefetch",
                                               "--fsdp_cpu_offload"}));
  EXPECT_EQ(given.strategy, Parallel::Fsdp);
  EXPECT_EQ(given.reduce_dtype, at::kBFloat16);
  EXPECT_FALSE(given.prefetch);
  EXPECT_TRUE(given.cpu_offload);
  EXPECT_EQ(app::timeout_of_world(parse(Sft, {"--ddp_timeout", "1.5"})).count(), 1500);
}

TEST(CheckpointingRequest, RefusesKwargsItWouldHaveToIgnore) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"offload": true})", "offload is not available yet"},
      {R"({"every_n_layer": 2})", "unknown key \"every_n_layer\"; did you mean every_n_layers?"},
      {R"({"context_fn": 1})", "It takes use_reentrant, every_n_layers"},
      {R"({"use_reentrant": "no"})", "use_reentrant: expected true or false, found \"no\""},
      {R"({"every_n_layers": 0})", "expected at least 1"},
      {R"({"every_n_layers": "2"})", "expected a whole number"},
      {R"({"every_n_layers": 2, "ratio": 0.5})", "ratio, layers and every_n_layers"},
      {R"({"layers": "a"})", "is not a number"},
      {R"({"layers": [[1]]})", "expected a list of blocks"},
      {R"({"policy": "most"})", "most"},
      {R"({"policy": "full", "selective": true})", "policy full does not; give one"},
      {R"({"use_reentrant": true, "selective": true})", "has no effect with use_reentrant"},
      {R"({"use_reentrant": true, "early_stop": true})", "early_stop has no effect"},
      {R"({"determinism_check": "sometimes"})", "expected default, none or values"},
      {R"([1])", "expected a JSON object, found an array"},
      {R"({"ratio": 0.5)", "--gradient_checkpointing_kwargs"}};
  for (const auto& [kwargs, message] : cases) {
    expect_error(
        [&kwargs = kwargs] {
          sft_request({"--gradient_checkpointing_kwargs", kwargs});
        },
        message);
  }
}

TEST(CheckpointingRequest, RefusesFlagsAndKwargsThatContradictEachOther) {
  const std::pair<Words, const char*> cases[] = {
      {{"--gradient_checkpointing_use_reentrant",
        "--gradient_checkpointing_kwargs",
        R"({"use_reentrant": false})"},
       "--gradient_checkpointing_use_reentrant and --gradient_checkpointing_kwargs contradict"},
      {{"--gradient_checkpointing_policy",
        "full",
        "--gradient_checkpointing_kwargs",
        R"({"selective": true})"},
       "--gradient_checkpointing_policy and --gradient_checkpointing_kwargs contradict"},
      {{"--gradient_checkpointing_layers",
        "0",
        "--gradient_checkpointing_kwargs",
        R"({"every_n_layers": 2})"},
       "gradient checkpointing of list:0 and of every:2"},
      {{"--gradient_checkpointing_layers", "0", "--gradient_checkpointing_ratio", "0.5"},
       "give one"},
      {{"--gradient_checkpointing_ratio", "0"}, "more than 0"}};
  for (const auto& [words, message] : cases) {
    expect_error([&words = words] { sft_request(words); }, message);
  }
}

}  // namespace
}  // namespace reprise::testing
