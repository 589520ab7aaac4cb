#include "reprise/help/help_page.h"

#include <map>
#include <utility>

namespace reprise::app {

namespace {

using Words = std::vector<std::string>;

Words common_flags(const Words& own) {
  Words all{"config",
            "model",
            "data",
            "eval_data",
            "output_dir",
            "max_length",
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "learning_rate",
            "num_train_epochs",
            "max_steps",
            "bf16",
            "lora_r",
            "gradient_checkpointing",
            "activation_memory_budget",
            "logging_steps",
            "resume_from_checkpoint"};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

HelpPage training(const std::string& name,
                  const Words& own,
                  const std::string& first,
                  const std::string& second) {
  const bool is_online = name == "grpo" || name == "ppo";
  return {name,
          common_flags(own),
          {"reprise " + name + " " + first, "reprise " + name + " " + second},
          is_online ? "docs/rl.md" : "docs/objectives/" + name + ".md"};
}

HelpPage other(const std::string& name, Words examples) {
  return {name, {}, std::move(examples), "docs/commands.md"};
}

// Of a command that generates text.
HelpPage text(const std::string& name, const Words& own, Words examples) {
  Words common{"model", "adapter", "dtype", "device", "bf16", "load_in_4bit", "text_only"};
  common.insert(common.end(), own.begin(), own.end());
  for (const char* flag : {"max_new_tokens", "temperature", "top_k", "top_p", "stop", "seed"}) {
    common.emplace_back(flag);
  }
  return {name, std::move(common), std::move(examples), "docs/commands.md"};
}

std::vector<HelpPage> all_pages() {
  const std::string resume = "--config out/training.yaml --resume_from_checkpoint auto";
  return {
      {"",
       {},
       {"reprise sft --model MODEL --data chat.jsonl --output_dir tuned --bf16",
        "reprise chat --model tuned"},
       "README.md"},
      training("sft",
               {"packing", "assistant_only_loss"},
               "--model MODEL --data chat.jsonl --output_dir out --lora_r 16",
               resume),
      training("rm", {"loss_type"}, "--model MODEL --data pairs.jsonl --output_dir out", resume),
      training("prm", {}, "--model MODEL --data steps.jsonl --output_dir out", resume),
      training("dpo",
               {"loss_type", "beta", "ref_model"},
               "--model MODEL --data pairs.jsonl --output_dir out --beta 0.1",
               resume),
      training("kto",
               {"beta", "ref_model"},
               "--model MODEL --data rated.jsonl --output_dir out",
               resume),
      training("kd",
               {"teacher_model", "kd_coef"},
               "--model MODEL --teacher_model TEACHER --data chat.jsonl \\\n    --output_dir out",
               resume),
      training("grpo",
               {"reward_function", "num_generations", "max_completion_length", "temperature"},
               "--model MODEL --data problems.jsonl --output_dir out \\\n"
               "    --reward_function last_number",
               resume),
      training("ppo",
               {"reward_model", "max_completion_length", "kl_coef", "temperature"},
               "--model MODEL --data prompts.jsonl --output_dir out \\\n"
               "    --reward_model REWARD",
               resume),
      {"plan",
       {"config",
        "model",
        "objective",
        "device",
        "activation_memory_budget",
        "memory_budget",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "max_length",
        "dtype",
        "bf16",
        "lora_r",
        "world",
        "parallel",
        "html",
        "json"},
       {"reprise plan --model MODEL --device h100 --batch 8 --seq 4096",
        "reprise plan --config out/training.yaml --device h200 --budget 20GiB"},
       "docs/planner.md"},
      {"launch",
       {},
       {"reprise launch --nproc 4 -- sft --model MODEL --data chat.jsonl \\\n"
        "    --output_dir out --parallel fsdp",
        "reprise launch --nproc 8 --nnodes 2 --node_rank 0 --master_addr host0 \\\n"
        "    -- sft --config run.yaml"},
       "docs/distributed.md"},
      text("generate",
           {"prompt", "chat", "repetition_penalty", "num_samples", "batch_size"},
           {"reprise generate --model MODEL --prompt \"The capital of France is\"",
            "reprise generate --model MODEL --num_samples 4 --temperature 1 < prompts.jsonl"}),
      text("chat",
           {"system"},
           {"reprise chat --model MODEL", "reprise chat --model MODEL --system \"Be brief.\""}),
      other("score",
            {"reprise score --model MODEL < texts.jsonl",
             "reprise score --model MODEL --adapter tuned < texts.jsonl"}),
      other("tokenize",
            {"reprise tokenize --model MODEL < texts.jsonl",
             "echo '{\"text\": \"Hello\"}' | reprise tokenize --model MODEL"}),
      other("inspect", {"reprise inspect MODEL", "reprise inspect MODEL --dtype bfloat16"}),
      other("init",
            {"reprise init --text book.txt --output model",
             "reprise init --text book.txt --output model --config config.json"}),
      other(
          "import",
          {"reprise import model.gguf model", "reprise import model.gguf model --dtype bfloat16"}),
      other("export",
            {"reprise export MODEL model.gguf", "reprise export MODEL model.gguf --type q8_0"}),
      other("merge",
            {"reprise merge --model MODEL --adapter tuned --output merged",
             "reprise merge --model MODEL --adapter tuned --output merged \\\n"
             "    --dtype bfloat16"}),
      other("demo", {"reprise demo", "reprise demo --help steps"}),
  };
}

}  // namespace

HelpPage help_page(const std::string& command) {
  for (HelpPage& page : all_pages()) {
    if (page.command == command || (command == "reward" && page.command == "rm")) {
      return page;
    }
  }
  return other(command, {});
}

std::string document_of_group(const std::string& group, const HelpPage& page) {
  static const std::map<std::string, std::string> documents = {
      {"Gradient checkpointing", "docs/training.md"},
      {"Gradient checkpointing of one model", "docs/rl.md"},
      {"Memory budget", "docs/memory.md"},
      {"Several processes (reprise launch)", "docs/distributed.md"},
      {"LoRA (any of these enables it)", "docs/training.md"},
      {"Model", "docs/training.md"},
      {"Data", "docs/training.md"},
      {"Training", "docs/training.md"},
      {"Evaluation and saving", "docs/training.md"},
  };
  const auto found = documents.find(group);
  const bool is_training = page.document.starts_with("docs/objectives") ||
                           page.document == "docs/rl.md" || page.document == "docs/planner.md";
  return found != documents.end() && is_training ? found->second : page.document;
}

}  // namespace reprise::app
