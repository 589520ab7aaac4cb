// The names of optimizers, as options and messages have them.
#include <reprise/optim/optimizer.h>

#include <c10/util/Exception.h>

#include <array>

namespace reprise {

namespace {

struct OptimizerName {
  std::string_view name;
  OptimizerKind kind;
};

// The first name of a kind is the one that name_of() gives.
constexpr std::array<OptimizerName, 5> kOptimizers = {{
    {"adamw", OptimizerKind::AdamW},
    {"adamw_torch", OptimizerKind::AdamW},
    {"adamw_torch_fused", OptimizerKind::AdamW},
    {"rmsprop", OptimizerKind::RmsProp},
    {"sgd", OptimizerKind::Sgd},
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
  TORCH_CHECK(false,
              "expected the optimizer adamw (also adamw_torch or adamw_torch_fused), rmsprop or "
              "sgd, got \"",
              name,
              "\"");
}

}  // namespace reprise
