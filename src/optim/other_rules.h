// The rules that are not elementwise, or that round.
#pragma once

#include "optim/update_rule.h"

#include <memory>

namespace reprise {

/// Moments of 8 bits in blocks. Parameters must be cut between blocks.
std::unique_ptr<const UpdateRule> make_adamw_8bit(const OptimizerOptions& options);
/// Moments of 16 bits.
std::unique_ptr<const UpdateRule> make_adamw_bf16(const OptimizerOptions& options);
/// Parameters must be whole.
std::unique_ptr<const UpdateRule> make_adafactor(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> make_muon(const OptimizerOptions& options);

}  // namespace reprise
