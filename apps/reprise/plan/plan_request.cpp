#include "reprise/plan/plan_request.h"

#include "reprise/training/flags/flag_spec.h"
#include "reprise/training/options/lora_config.h"
#include "reprise/training/options/quantization_options.h"
#include "reprise/training/options/trainer_options.h"

#include <reprise/io/dtype.h>
#include <reprise/io/file_format.h>
#include <reprise/model/attention_kernels.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>

#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <filesystem>
#include <optional>
#include <sstream>

namespace reprise::app {

namespace {

namespace fs = std::filesystem;

ModelConfig read_planned_config(const fs::path& folder, ModelPart part) {
  refuse_foreign_model(folder);
  TORCH_CHECK(fs::exists(folder / "config.json"),
              folder.string(),
              fs::exists(folder) ? ": has no config.json" : ": no such folder");
  return ModelConfig::read(folder, part);
}

bool has_dropout(const ModelConfig& config) {
  return config.embedding_dropout > 0 || config.attention_dropout > 0 ||
         config.residual_dropout > 0;
}

void remove_dropout(ModelConfig& config) {
  config.embedding_dropout = config.attention_dropout = 0;
  config.residual_dropout = config.classifier_dropout = 0;
}

std::optional<LoraConfig> planned_lora(const PlanFlags& flags) {
  const TrainingFlags& training = flags.training;
  if (!training.adapter.empty()) {
    return LoraConfig::read(training.adapter);
  }
  if (!training.use_peft) {
    return std::nullopt;
  }
  LoraConfig lora = lora_config(training, training.model);
  if (training.disable_dropout || !flags.has("lora_dropout")) {
    lora.dropout = 0;
  }
  return lora;
}

DeviceProfile planned_device(const std::string& name) {
  const std::string here = torch::cuda::is_available() ? "cuda" : "cpu";
  DeviceProfile device = device_profile(name.empty() ? here : name);
  if (device.name == "cuda") {
    device.generation = gpu_generation();
  }
  return device;
}

std::optional<Budget> planned_budget(const PlanFlags& flags,
                                     const std::string& name,
                                     const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_budget(flags.sources.at(name), text));
}

/// The end of a training command, flag by flag. Behind a --config only flags that override it.
class TrainingCommandText {
 public:
  explicit TrainingCommandText(const PlanFlags& flags) : flags_(flags) {}

  template <class Value>
  void add(const char* flag, const Value& value, bool is_needed = true) {
    const bool is_in_file = !flags_.config.empty() && !flags_.typed.contains(flag);
    if (is_needed && !is_in_file) {
      text_ << " --" << flag << " " << value;
    }
  }
  void add_switch(const char* flag, bool is_on) {
    const bool is_in_file = !flags_.config.empty() && !flags_.typed.contains(flag);
    text_ << (is_on && !is_in_file ? std::string(" --") + flag : "");
  }
  std::string text() const { return text_.str(); }

 private:
  const PlanFlags& flags_;
  std::ostringstream text_;
};

std::string run_flags(const PlanFlags& flags) {
  const TrainingFlags& training = flags.training;
  const bool is_online_run = is_online(training.objective);
  const bool has_parts =
      flags.row_length == training.max_prompt_length + training.max_completion_length;
  TrainingCommandText text(flags);
  text.add("model", training.model);
  text.add("teacher_model", training.teacher_model, !training.teacher_model.empty());
  text.add_switch("text_only", training.text_only);
  text.add_switch("bf16", training.bf16);
  text.add("dtype", training.dtype, !training.bf16 && !training.dtype.empty());
  text.add("adapter", training.adapter, !training.adapter.empty());
  text.add("lora_r", training.lora_r, training.use_peft && flags.has("lora_r"));
  text.add_switch("use_peft", training.use_peft && !flags.has("lora_r"));
  text.add_switch("use_dora", training.use_dora);
  text.add("init_lora_weights", training.init_lora_weights, flags.has("init_lora_weights"));
  text.add_switch("load_in_4bit", training.load_in_4bit);
  text.add_switch("load_in_8bit", training.load_in_8bit);
  text.add("bnb_4bit_quant_type",
           training.bnb_4bit_quant_type,
           training.load_in_4bit && training.bnb_4bit_quant_type != "nf4");
  text.add_switch("use_bnb_nested_quant", training.use_bnb_nested_quant);
  text.add("bnb_4bit_compute_dtype",
           training.bnb_4bit_compute_dtype,
           !training.bnb_4bit_compute_dtype.empty());
  text.add("per_device_train_batch_size", training.per_device_train_batch_size);
  // grpo and ppo limit a prompt and its completion separately.
  text.add("max_length", flags.row_length, !is_online_run);
  text.add("max_prompt_length", training.max_prompt_length, is_online_run && has_parts);
  text.add("max_completion_length", training.max_completion_length, is_online_run && has_parts);
  text.add("attention", training.attention, training.attention != "auto");
  text.add("gradient_accumulation_steps",
           training.gradient_accumulation_steps,
           training.gradient_accumulation_steps > 1);
  text.add("optim", training.optim, parse_optimizer(training.optim) != OptimizerKind::AdamW);
  text.add("parallel", training.parallel, !training.parallel.empty());
  return text.text();
}

bool has_budget_in_file(const PlanFlags& flags) {
  const auto is_in_file = [&](const char* name) {
    return flags.has(name) && !flags.typed.contains(name);
  };
  return is_in_file("activation_memory_budget") || is_in_file("memory_budget");
}

}  // namespace

ModelPlanRequest plan_request(const PlanFlags& flags) {
  const TrainingFlags& training = flags.training;
  ModelPlanRequest request;
  request.config =
      read_planned_config(training.model, training.text_only ? ModelPart::Text : ModelPart::Whole);
  if (training.disable_dropout && flags.has("disable_dropout")) {
    TORCH_CHECK(has_dropout(request.config) || !flags.typed.contains("disable_dropout"),
                "--disable_dropout has no effect: the model has no dropout");
    remove_dropout(request.config);
  }
  request.device = planned_device(training.device);
  const auto dtype = training.dtype.empty() ? request.config.dtype : dtype_named(training.dtype);
  request.dtype = training.bf16 ? at::kFloat : dtype.value_or(at::kFloat);
  if (training.bf16) {
    request.autocast = at::kBFloat16;
  }
  request.objective = parse_planned_objective(to_string(training.objective));
  if (!training.teacher_model.empty()) {
    request.teacher = read_planned_config(
        training.teacher_model, training.text_only ? ModelPart::TextIfMixed : ModelPart::Whole);
  }
  request.lora = planned_lora(flags);
  if (const auto quantization = quantization_options(training)) {
    TORCH_CHECK(!request.config.quantization,
                training.model,
                ": is quantised already (",
                request.config.quantization ? request.config.quantization->describe() : "",
                "): leave out --load_in_",
                training.load_in_4bit ? "4bit" : "8bit");
    request.config.quantization = quantization;
  }
  TORCH_CHECK(
      !request.config.quantization || request.lora,
      training.model,
      ": is quantised, and quantised weights cannot be trained, only adapters on them: give "
      "--lora_r 16 too");
  request.optimizer = optimizer_options(training);
  request.rows = training.per_device_train_batch_size;
  request.length = flags.row_length;
  request.accumulation = training.gradient_accumulation_steps;
  if (flags.world) {
    request.world = ParallelSetup{
        .size = *flags.world,
        .strategy = training.parallel.empty() ? Parallel::Ddp : parallel_named(training.parallel)};
  }
  request.limits.activations =
      planned_budget(flags, "activation_memory_budget", training.activation_memory_budget);
  request.limits.total = planned_budget(flags, "memory_budget", training.memory_budget);
  request.limits.may_offload_state = !flags.typed.contains("optimizer_offload");
  request.limits.may_offload_gradients = !flags.typed.contains("gradient_offload");
  return request;
}

void choose_attention(const std::string& name, const ModelPlanRequest& request) {
  if (name == "auto") {
    return choose_kernels({});
  }
  TORCH_CHECK(!has_shaped_scores(request.config),
              "--attention ",
              name,
              " has no effect on this model: its scores have a soft cap or a bias by head, which "
              "LibTorch's kernels do not compute. Leave it out");
  const auto type = request.autocast.value_or(request.dtype);
  const bool is_supported =
      request.device.type == c10::kCUDA &&
      (name == "math" ||
       (type != at::kFloat && (name == "flash" || request.device.generation >= kHopper)));
  TORCH_CHECK(is_supported,
              "--attention ",
              name,
              " has no effect on ",
              request.device.name,
              " in ",
              dtype_name(type),
              ": it needs a GPU and a 16-bit type, and cudnn a Hopper GPU or newer. Leave it out");
  choose_kernels({.attention = parse_attention_kernel(name)});
}

std::string training_command(const PlanFlags& flags, const ModelPlan& plan) {
  std::string text = "reprise ";
  if (flags.world) {
    text += "launch --nproc " + std::to_string(*flags.world) + " -- ";
  }
  text += to_string(flags.training.objective);
  if (!flags.config.empty()) {
    text += " --config " + flags.config.string();
  }
  text += run_flags(flags);
  text += plan.host.state ? " --optimizer_offload" : "";
  text += plan.host.gradients ? " --gradient_offload" : "";
  const bool is_plain = plan.chosen + 1 == plan.curve.size();
  if (!is_plain && !has_budget_in_file(flags)) {
    constexpr int64_t kMebibyte = int64_t{1} << 20;
    // What a process gathers and reduces counts too.
    const int64_t peak = budget_for(plan.curve[plan.chosen].activation_bytes +
                                        plan.standing.gathered + plan.standing.reductions,
                                    plan.device_type);
    text +=
        " --activation_memory_budget " + std::to_string((peak + kMebibyte - 1) / kMebibyte) + "MiB";
  }
  return text;
}

}  // namespace reprise::app
