#include "reprise/training/setup/model_card.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/options/lora_config.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>

#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <sstream>
#include <string_view>
#include <vector>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMark =
    "<!-- Written by reprise, which replaces it; remove this line to keep it. -->";

// Settings of the card. Anything else might be private.
constexpr std::array kShown = std::to_array<std::string_view>({"per_device_train_batch_size",
                                                               "gradient_accumulation_steps",
                                                               "num_train_epochs",
                                                               "max_steps",
                                                               "learning_rate",
                                                               "critic_learning_rate",
                                                               "lr_scheduler_type",
                                                               "warmup_steps",
                                                               "warmup_ratio",
                                                               "optim",
                                                               "adam_beta1",
                                                               "adam_beta2",
                                                               "adam_epsilon",
                                                               "weight_decay",
                                                               "max_grad_norm",
                                                               "max_length",
                                                               "max_prompt_length",
                                                               "max_completion_length",
                                                               "num_generations",
                                                               "temperature",
                                                               "packing",
                                                               "loss_type",
                                                               "beta",
                                                               "kl_coef",
                                                               "dtype",
                                                               "bf16",
                                                               "seed"});

std::string title(Objective objective) {
  std::string name = to_string(objective);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return name;
}

// Names only: folders tell about the machine.
std::vector<std::string> data_names(const std::string& files) {
  std::vector<std::string> names;
  if (!files.empty()) {
    for (const auto& file : parse_data_files(files)) {
      names.push_back(file.path.filename().string());
    }
  }
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "`" : ", `") + name + "`";
  }
  return text;
}

// The model's name on the Hub, which checks that front matter has one: that of its cache's folder
// (models--org--name/snapshots/…), a name of one or two parts as it is, otherwise the folder's
// name.
std::string hub_name(const std::string& base) {
  static const std::regex in_cache(R"(models--([\w.-]+?)--([\w.-]+)/snapshots/)");
  static const std::regex is_name(R"([\w-][\w.-]*(/[\w-][\w.-]*)?)");
  std::smatch found;
  if (std::regex_search(base, found, in_cache)) {
    return found[1].str() + "/" + found[2].str();
  }
  if (std::regex_match(base, is_name)) {
    return base;
  }
  const auto folder = fs::absolute(base).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// A JSON string is a YAML string, whatever is in it.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_front_matter(std::ostream& out,
                        const TrainingFlags& flags,
                        const std::string& base,
                        CardOf kind) {
  const bool is_adapter = kind == CardOf::Adapter;
  const bool has_score = flags.objective == Objective::Rm;
  const bool has_classes = flags.objective == Objective::Prm;
  out << "---\n"
      << "base_model: " << quoted(base) << "\n"
      << "library_name: " << (is_adapter ? "peft" : "transformers") << "\n"
      << "pipeline_tag: "
      << (has_score     ? "text-classification"
          : has_classes ? "token-classification"
                        : "text-generation")
      << "\n"
      << "tags:\n";
  if (is_adapter) {
    out << "- " << quoted("base_model:adapter:" + base) << "\n- lora\n- transformers\n";
  }
  out << "- " << to_string(flags.objective) << "\n- reprise\n- generated_from_trainer\n---\n\n";
}

void write_settings(std::ostream& out, const TrainingFlags& flags, CardOf kind) {
  const Json configuration = resolved_configuration(flags);
  out << "| setting | value |\n|---|---|\n";
  const auto is_unused = [&](std::string_view name) {
    return name == (flags.max_steps > 0 ? "num_train_epochs" : "max_steps");
  };
  const auto write = [&](std::string_view name) {
    const auto value = configuration.find(name);
    if (value != configuration.end() && !value->is_null() && *value != "" && !is_unused(name)) {
      out << "| `" << name << "` | "
          << (value->is_string() ? value->get<std::string>() : value->dump()) << " |\n";
    }
  };
  for (const auto name : kShown) {
    write(name);
  }
  if (kind == CardOf::Adapter && flags.adapter.empty()) {
    for (const auto& name : lora_settings()) {
      write(name);
    }
  }
}

std::string kind_of_adapter(const TrainingFlags& flags) {
  const auto config =
      flags.adapter.empty() ? lora_config(flags, "") : LoraConfig::read(flags.adapter);
  const std::string kind = adapter_kind(config);
  return (kind == "OLoRA" ? "An " : "A ") + kind;
}

}  // namespace

std::string model_card(const TrainingFlags& flags, const std::string& folder, CardOf kind) {
  const std::string base = hub_name(folder);
  std::ostringstream out;
  write_front_matter(out, flags, base, kind);
  const auto data = data_names(flags.data);
  const auto evaluation = data_names(flags.eval_data);
  out << kMark << "\n\n# " << fs::path(flags.output_dir).lexically_normal().filename().string()
      << "\n\n"
      << (kind == CardOf::Adapter ? kind_of_adapter(flags) + " adapter of `" : "`") << base
      << (kind == CardOf::Adapter ? "`" : "`, trained further") << " by " << title(flags.objective)
      << " on " << listed(data) << "."
      << (evaluation.empty() ? "" : " Evaluated on " + listed(evaluation) + ".") << "\n\n";
  if (!flags.adapter.empty()) {
    out << "Training continued the adapter `" << fs::path(flags.adapter).filename().string()
        << "`.\n\n";
  }
  out << "## Training\n\n";
  write_settings(out, flags, kind);
  out << "\n## Versions\n\n- Reprise " REPRISE_VERSION "\n- LibTorch " TORCH_VERSION "\n";
  return out.str();
}

void write_model_card(const fs::path& folder, const std::string& card) {
  const fs::path file = folder / "README.md";
  if (!fs::exists(file) || read_file(file).find(kMark) != std::string::npos) {
    write_file(file, card);
  }
}

}  // namespace reprise::app
