#include "reprise/training/setup/check_inputs.h"

#include "reprise/adapter_folder.h"
#include "reprise/training/setup/open_model.h"
#include "reprise/training/setup/open_rewards.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file_format.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/config.h>
#include <reprise/model/lora.h>
#include <reprise/text/tokenizer.h>

#include <c10/util/Exception.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

void check_file(const char* flag, const fs::path& file) {
  std::error_code not_there;
  TORCH_CHECK(!fs::is_directory(file, not_there),
              "--",
              flag,
              " ",
              file.string(),
              ": is a folder, not a file");
  TORCH_CHECK(
      access(file.c_str(), R_OK) == 0, "--", flag, " ", file.string(), ": ", reason_of(errno));
}

void check_data_files(const char* flag, const std::string& names) {
  if (!names.empty()) {
    for (const auto& file : parse_data_files(names)) {
      check_file(flag, file.path);
    }
  }
}

// Only config.json and the headers of the weights are read.
void check_model(const char* flag, const std::string& name, ModelPart part) {
  if (name.empty()) {
    return;
  }
  refuse_foreign_model(name);
  TORCH_CHECK(fs::is_directory(name),
              "--",
              flag,
              " ",
              name,
              fs::exists(name) ? ": is a file, not a model's folder" : ": no such folder");
  const auto folders = model_folders({name, ""}, "");
  ModelConfig::read(folders.model, part);
  const TensorCheckpoint weights(folders.model);
  if (!folders.adapter.empty()) {
    LoraConfig::read(folders.adapter);
    const TensorCheckpoint adapter(folders.adapter, "adapter_model");
  }
}

}  // namespace

void check_inputs(const TrainingFlags& flags) {
  check_data_files("data", flags.data);
  check_data_files("eval_data", flags.eval_data);
  check_data_files("ptx_data", flags.ptx_data);
  if (!flags.chat_template.empty()) {
    check_file("chat_template", flags.chat_template);
  }
  if (!flags.memory_plan.empty()) {
    check_file("memory_plan", flags.memory_plan);
  }
  check_model("model", flags.model, trained_part(flags));
  if (!flags.adapter.empty()) {
    TORCH_CHECK(fs::is_directory(flags.adapter), "--adapter ", flags.adapter, ": no such folder");
    LoraConfig::read(flags.adapter);
  }
  check_model("ref_model", flags.ref_model, other_part(flags));
  check_model("teacher_model", flags.teacher_model, other_part(flags));
  check_model("critic_model", flags.critic_model, other_part(flags));
  check_rewards(flags);
  Tokenizer::open(tokenizer_folder(ModelFolders{flags.model, flags.adapter}));
}

// By a folder that is made and removed: permissions alone do not tell about read-only file systems,
// quotas and files in the way.
void check_writable(const fs::path& output) {
  fs::path there = fs::absolute(output).lexically_normal();
  std::error_code ignored;
  TORCH_CHECK(!fs::exists(there, ignored) || fs::is_directory(there),
              "--output_dir ",
              output.string(),
              ": is a file, not a folder");
  while (!fs::exists(there, ignored) && there.has_relative_path()) {
    there = there.parent_path();
  }
  std::string probe = (there / ".reprise-probe-XXXXXX").string();
  const bool is_made = mkdtemp(probe.data()) != nullptr;
  const int error = errno;
  TORCH_CHECK(is_made,
              "--output_dir ",
              output.string(),
              ": cannot be written: ",
              there.string(),
              ": ",
              reason_of(error));
  fs::remove(probe, ignored);
}

}  // namespace reprise::app
