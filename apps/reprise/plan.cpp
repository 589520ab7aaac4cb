// `reprise plan`: what training a model takes on a device, before either is here. The library
// computes it (train/model_plan.h); this file reads the command line, plan_text.cpp prints.
#include "reprise/commands.h"
#include "reprise/model_options.h"
#include "reprise/plan_text.h"

#include <reprise/attention_kernels.h>
#include <reprise/io/dtype.h>
#include <reprise/io/json.h>
#include <reprise/parallel/spread.h>
#include <reprise/train/memory_report.h>
#include <reprise/train/model_plan.h>

#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLoraRank = 16;  // of the training commands, unless --lora_r says otherwise

struct PlanFlags {
  fs::path model, teacher, html;
  std::string device, dtype, objective = "sft", optimizer = "adamw_torch_fused";
  std::string attention = "auto";
  std::string activation_budget, total_budget;
  std::string parallel;
  int64_t batch = 1, length = 1024, accumulation = 1, lora_rank = 0;
  std::optional<int64_t> world;
  bool bf16 = false, lora = false, json = false;
};

ModelConfig read_config(const fs::path& folder) {
  TORCH_CHECK(fs::exists(folder / "config.json"),
              folder.string(),
              fs::exists(folder) ? ": has no config.json, which is all that a plan reads"
                                 : ": no such folder");
  return ModelConfig::read(folder);
}

OptimizerKind optimizer_named(const std::string& name) {
  return name == "sgd"       ? OptimizerKind::Sgd
         : name == "rmsprop" ? OptimizerKind::RmsProp
                             : OptimizerKind::AdamW;
}

ModelPlanRequest request_of(const PlanFlags& flags) {
  ModelPlanRequest request;
  request.config = read_config(flags.model);
  const std::string here = torch::cuda::is_available() ? "cuda" : "cpu";
  request.device = device_profile(flags.device.empty() ? here : flags.device);
  if (request.device.name == "cuda") {
    request.device.generation = gpu_generation();
  }
  const auto dtype = flags.dtype.empty() ? request.config.dtype : chosen_dtype(flags.dtype);
  request.dtype = flags.bf16 ? at::kFloat : dtype.value_or(at::kFloat);
  if (flags.bf16) {
    request.autocast = at::kBFloat16;
  }
  request.objective = parse_planned_objective(flags.objective);
  if (!flags.teacher.empty()) {
    request.teacher = read_config(flags.teacher);
  }
  if (flags.lora || flags.lora_rank > 0) {
    request.lora.emplace();
    request.lora->rank = flags.lora_rank > 0 ? flags.lora_rank : kLoraRank;
  }
  request.optimizer.kind = optimizer_named(flags.optimizer);
  request.rows = flags.batch;
  request.length = flags.length;
  request.accumulation = flags.accumulation;
  TORCH_CHECK(flags.world || flags.parallel.empty(),
              "--parallel has no effect without --world, the number of processes");
  if (flags.world) {
    request.world = PlannedWorld{
        .size = *flags.world,
        .strategy = flags.parallel.empty() ? Parallel::Ddp : parallel_named(flags.parallel)};
  }
  if (!flags.activation_budget.empty()) {
    request.limits.activations = parse_budget("--budget", flags.activation_budget);
  }
  if (!flags.total_budget.empty()) {
    request.limits.total = parse_budget("--memory_budget", flags.total_budget);
  }
  return request;
}

std::string command_line(const PlanFlags& flags, const ModelPlan& plan) {
  const bool is_plain = plan.chosen + 1 == plan.curve.size();
  std::ostringstream text;
  text << "reprise ";
  if (flags.world) {
    text << "launch --nproc " << *flags.world << " -- ";
  }
  text << flags.objective << " --model " << flags.model.string();
  if (!flags.teacher.empty()) {
    text << " --teacher_model " << flags.teacher.string();
  }
  text << (flags.bf16 ? " --bf16" : flags.dtype.empty() ? "" : " --dtype " + flags.dtype);
  if (flags.lora_rank > 0) {
    text << " --lora_r " << flags.lora_rank;
  } else if (flags.lora) {
    text << " --use_peft";
  }
  text << " --per_device_train_batch_size " << flags.batch;
  const bool generates = flags.objective == "grpo" || flags.objective == "ppo";
  if (!generates) {  // there a row is a prompt and its completion, each with a limit of its own
    text << " --max_length " << flags.length;
  }
  if (flags.attention != "auto") {
    text << " --attention " << flags.attention;
  }
  if (flags.accumulation > 1) {
    text << " --gradient_accumulation_steps " << flags.accumulation;
  }
  if (!flags.optimizer.starts_with("adamw")) {
    text << " --optim " << flags.optimizer;
  }
  if (!flags.parallel.empty()) {
    text << " --parallel " << flags.parallel;
  }
  if (!is_plain && flags.world) {
    text << " --gradient_checkpointing";  // budgets are for one process
  } else if (!is_plain) {
    constexpr int64_t kMebibyte = int64_t{1} << 20;
    const int64_t peak = budget_for(plan.curve[plan.chosen].activation_bytes, plan.device_type);
    text << " --activation_memory_budget " << (peak + kMebibyte - 1) / kMebibyte << "MiB";
  }
  return text.str();
}

// As training does, where it is not told otherwise.
void choose_attention(const std::string& name, const ModelPlanRequest& request) {
  if (name == "auto") {
    return choose_kernels({});
  }
  constexpr int kHopper = 9;
  const auto type = request.autocast.value_or(request.dtype);
  const bool is_served =
      request.device.type == c10::kCUDA &&
      (name == "math" ||
       (type != at::kFloat && (name == "flash" || request.device.generation >= kHopper)));
  TORCH_CHECK(is_served,
              "--attention ",
              name,
              " has no effect on ",
              request.device.name,
              " in ",
              dtype_name(type),
              ": it is for 16-bit types on a GPU, cudnn for Hopper and newer. Leave it out");
  choose_kernels({.attention = parse_attention_kernel(name)});
}

void run_plan(const PlanFlags& flags) {
  const auto request = request_of(flags);
  choose_attention(flags.attention, request);
  const auto plan = plan_model(request);
  const auto line = command_line(flags, plan);
  if (!flags.html.empty()) {
    write_memory_report(flags.html, plan.report);
  }
  if (flags.json) {
    std::cout << plan_json(request, plan, line).dump(2) << "\n";
    return;
  }
  print_plan(request, plan, std::cout);
  std::cout << "\n" << line << "\n";
}

}  // namespace

void add_plan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  auto* command = app.add_subcommand(
      "plan",
      "Say what training a model takes on a device, from its config.json alone: memory by class, "
      "how time grows as memory shrinks, and which batches fit.");
  command->add_option("--model", flags->model, "Folder with the model's config.json")
      ->required()
      ->type_name("DIR");
  command
      ->add_option(
          "--batch", flags->batch, "Rows of a micro-batch, pairs for rm and dpo (default 1)")
      ->check(CLI::PositiveNumber);
  command->add_option("--seq", flags->length, "Tokens of a row (default 1024)")
      ->check(CLI::PositiveNumber);
  command->add_option("--accumulation", flags->accumulation, "Micro-batches of a step (default 1)")
      ->check(CLI::PositiveNumber);
  command->add_option(
      "--world", flags->world, "Processes, each with such a device; figures are of one of them");
  command
      ->add_option("--parallel", flags->parallel, "What they share: ddp (default), zero2 or fsdp")
      ->type_name("NAME");
  command
      ->add_option("--device",
                   flags->device,
                   "h200, h100, a100, a100-40, l40s, rtx4090; cuda: the GPU that is here; cpu; by "
                   "default the GPU if there is one")
      ->type_name("NAME");
  auto* dtype =
      command->add_option("--dtype", flags->dtype, "Type of the weights; by default config.json's");
  dtype->check(CLI::IsMember({"float32", "bfloat16"}));
  command->add_flag("--bf16", flags->bf16, "Autocast: weights in float32, products in bfloat16")
      ->excludes(dtype);
  command
      ->add_option("--attention",
                   flags->attention,
                   "Kernel of attention on a GPU: auto (flash), flash, cudnn or math")
      ->check(CLI::IsMember({"auto", "flash", "cudnn", "math"}));
  command
      ->add_option("--objective", flags->objective, "sft (default), rm, dpo, kto, kd, grpo or ppo")
      ->type_name("NAME");
  command->add_option("--teacher_model", flags->teacher, "kd: folder with its config.json")
      ->type_name("DIR");
  command->add_flag("--lora", flags->lora, "Train LoRA adapters instead of the weights");
  command->add_option("--lora_r", flags->lora_rank, "Rank of the adapters; switches LoRA on")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--optim", flags->optimizer, "adamw, as the training commands name it, rmsprop or sgd")
      ->check(CLI::IsMember({"adamw", "adamw_torch", "adamw_torch_fused", "rmsprop", "sgd"}));
  command
      ->add_option("--budget",
                   flags->activation_budget,
                   "Most activation memory: 6GiB, a share of what no checkpointing takes (0.5), "
                   "min, max or auto: what the device has left (default)")
      ->type_name("SIZE");
  command
      ->add_option(
          "--memory_budget", flags->total_budget, "Most memory of everything, such as 40GiB")
      ->type_name("SIZE");
  command->add_option("--html", flags->html, "Also write the plan as a page")->type_name("FILE");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { run_plan(*flags); });
}

}  // namespace reprise::app
