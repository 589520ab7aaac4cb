// Makes the rule of an optimizer from its options, and refuses options that are out of range or
// have no effect.
#include "optim/update_rule.h"

#include "optim/compact_adamw.h"
#include "optim/elementwise_rule.h"
#include "optim/matrix_rules.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

// Must be below 1: an average with decay 1 would never change.
void check_share(const char* name, double value) {
  TORCH_CHECK(
      value >= 0 && value < 1, "[optim] ", name, ": expected at least 0 and below 1, got ", value);
}

void check_not_negative(const char* name, double value) {
  TORCH_CHECK(value >= 0, "[optim] ", name, ": expected at least 0, got ", value);
}

bool has_momentum(OptimizerKind kind) {
  return kind == OptimizerKind::RmsProp || kind == OptimizerKind::Sgd ||
         kind == OptimizerKind::Muon;
}

void check_momentum(const OptimizerOptions& options) {
  const double momentum = options.momentum.value_or(0);
  check_not_negative("momentum", momentum);
  TORCH_CHECK(momentum == 0 || has_momentum(options.kind),
              "[optim] momentum is for RMSprop, SGD and Muon; AdamW's and Lion's is beta1. "
              "Expected 0, got ",
              momentum);
}

void check_adafactor(const OptimizerOptions& options) {
  TORCH_CHECK(options.kind == OptimizerKind::Adafactor ||
                  !(options.scale_parameter || options.relative_step || options.warmup_init),
              "[optim] scale_parameter, relative_step and warmup_init are for Adafactor, got them "
              "with ",
              name_of(options.kind));
  TORCH_CHECK(options.relative_step || !options.warmup_init,
              "[optim] warmup_init: expected relative_step with it, which it is the warmup of");
}

}  // namespace

double relative_step_size(const OptimizerOptions& options, int64_t updates) {
  const auto count = static_cast<double>(updates);
  return std::min(options.warmup_init ? 1e-6 * count : 1e-2, 1 / std::sqrt(count));
}

std::unique_ptr<const UpdateRule> make_update_rule(const OptimizerOptions& options) {
  check_not_negative("epsilon", options.epsilon);
  check_not_negative("weight_decay", options.weight_decay);
  check_share("beta1", options.beta1);
  check_share("beta2", options.beta2);
  check_momentum(options);
  check_adafactor(options);
  switch (options.kind) {
    case OptimizerKind::AdamW:
      return make_adamw(options);
    case OptimizerKind::AdamW8bit:
      return make_adamw_8bit(options);
    case OptimizerKind::AdamWBf16:
      return make_adamw_bf16(options);
    case OptimizerKind::Lion:
      return make_lion(options);
    case OptimizerKind::Adafactor:
      return make_adafactor(options);
    case OptimizerKind::Muon:
      check_share("momentum", options.momentum.value_or(0));
      return make_muon(options);
    case OptimizerKind::RmsProp:
      check_share("alpha", options.alpha);
      return make_rmsprop(options);
    case OptimizerKind::Sgd:
      return make_sgd(options);
  }
  TORCH_INTERNAL_ASSERT(false, "[optim] no rule for kind ", static_cast<int>(options.kind));
}

}  // namespace reprise
