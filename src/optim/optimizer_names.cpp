// The names of optimizers, as options and messages have them, and what distinguishes the kinds.
#include <reprise/optim/optimizer.h>

#include "optim/blockwise_map.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <array>

namespace reprise {

namespace {

struct OptimizerName {
  std::string_view name;
  OptimizerKind kind;
};

// The first name of a kind is the one that name_of() gives.
constexpr std::array<OptimizerName, 12> kOptimizers = {{
    {"adamw", OptimizerKind::AdamW},
    {"adamw_torch", OptimizerKind::AdamW},
    {"adamw_torch_fused", OptimizerKind::AdamW},
    {"adamw_8bit", OptimizerKind::AdamW8bit},
    {"adamw_bnb_8bit", OptimizerKind::AdamW8bit},
    {"adamw_bf16", OptimizerKind::AdamWBf16},
    {"lion", OptimizerKind::Lion},
    {"lion_32bit", OptimizerKind::Lion},
    {"adafactor", OptimizerKind::Adafactor},
    {"muon", OptimizerKind::Muon},
    {"rmsprop", OptimizerKind::RmsProp},
    {"sgd", OptimizerKind::Sgd},
}};

struct MissingOptimizer {
  std::string_view name;
  std::string_view reason;
  std::string_view instead;
};

constexpr std::string_view kPaging =
    "state is not paged here: it stays on its device, or with --parallel fsdp --fsdp_cpu_offload "
    "in "
    "CPU memory";

// transformers' names of what has a substitute here.
constexpr std::array<MissingOptimizer, 11> kMissing = {{
    {"paged_adamw_8bit", kPaging, "adamw_8bit"},
    {"paged_adamw_32bit", kPaging, "adamw"},
    {"paged_adamw", kPaging, "adamw"},
    {"paged_lion_8bit", kPaging, "lion"},
    {"paged_lion_32bit", kPaging, "lion"},
    {"lion_8bit", "Lion's moment has 32 bits here", "lion"},
    {"adamw_torch_8bit", "of torchao there is no 8-bit AdamW here", "adamw_8bit"},
    {"adamw_torch_4bit", "there are no moments of 4 bits here", "adamw_8bit"},
    {"adamw_anyprecision", "16-bit states are rounded stochastically here", "adamw_bf16"},
    {"rmsprop_bnb", "only torch.optim's RMSprop is here", "rmsprop"},
    {"rmsprop_bnb_8bit", "only torch.optim's RMSprop is here", "rmsprop"},
}};

}  // namespace

std::string_view name_of(OptimizerKind kind) {
  for (const OptimizerName& known : kOptimizers) {
    if (known.kind == kind) {
      return known.name;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no such optimizer");
}

OptimizerKind parse_optimizer(std::string_view name) {
  for (const OptimizerName& known : kOptimizers) {
    if (known.name == name) {
      return known.kind;
    }
  }
  const std::string instead = optimizer_instead_of(name);
  TORCH_CHECK(instead.empty(), "the optimizer ", name, ": ", instead);
  TORCH_CHECK(false,
              "expected one of the optimizers ",
              c10::Join(", ", optimizer_names()),
              ", got \"",
              name,
              "\"");
}

std::string optimizer_instead_of(std::string_view name) {
  for (const MissingOptimizer& missing : kMissing) {
    if (missing.name == name) {
      return c10::str(missing.reason, ". Use ", missing.instead);
    }
  }
  return "";
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  names.reserve(kOptimizers.size());
  for (const OptimizerName& known : kOptimizers) {
    names.emplace_back(known.name);
  }
  return names;
}

int64_t block_elements(OptimizerKind kind) {
  return kind == OptimizerKind::AdamW8bit ? BlockwiseMap::kBlock : 1;
}

bool updates_whole_parameters(OptimizerKind kind) {
  return kind == OptimizerKind::Adafactor || kind == OptimizerKind::Muon;
}

}  // namespace reprise
