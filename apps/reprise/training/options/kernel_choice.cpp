#include "reprise/training/options/kernel_choice.h"

#include <reprise/device_profile.h>
#include <reprise/io/dtype.h>

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

bool has_rows_of_one_length(const TrainingFlags& flags) {
  return flags.packing && flags.packing_strategy == "wrapped";
}

}  // namespace

KernelChoice kernel_choice(const TrainingFlags& flags, int generation) {
  KernelChoice choice;
  choice.is_deterministic = flags.deterministic;
  if (flags.attention != "auto") {
    choice.attention = parse_attention_kernel(flags.attention);
  } else if (generation >= kHopper && !flags.deterministic && has_rows_of_one_length(flags)) {
    choice.attention = AttentionKernel::Cudnn;
  }
  return choice;
}

std::string attention_of(const TrainingFlags& flags, const Model& model) {
  constexpr int64_t kSomeLength = 128;  // the length matters only if it is very short
  const ModelConfig& config = model.config();
  const std::string setting = flags.deterministic ? " (deterministic)" : "";
  if (has_shaped_scores(config)) {
    TORCH_CHECK(flags.attention == "auto",
                "--attention ",
                flags.attention,
                " has no effect on ",
                flags.model,
                ": its scores have a soft cap or a bias by head, which LibTorch's kernels do not "
                "compute. Leave it out");
    return "sliced" + setting;
  }
  const auto type = flags.bf16 ? at::kBFloat16 : model.dtype();
  const std::string served =
      served_attention({.heads = config.heads,
                        .kv_heads = config.kv_heads,
                        .head_dim = config.head_dim,
                        .length = kSomeLength,
                        .dropout = flags.disable_dropout ? 0.0 : config.attention_dropout},
                       at::device(model.device()).dtype(type));
  TORCH_CHECK(flags.attention == "auto" || flags.attention == served,
              "--attention ",
              flags.attention,
              " has no effect on ",
              flags.model,
              ": ",
              config.heads,
              " heads of ",
              config.head_dim,
              " in ",
              dtype_name(type),
              " are computed by ",
              served,
              type == at::kFloat ? ". It needs --bf16 or --dtype bfloat16" : ". Leave it out");
  return served + setting;
}

}  // namespace reprise::app
