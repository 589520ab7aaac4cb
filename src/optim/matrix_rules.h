// Rules that see a matrix as a whole: its rows and columns, or its singular values.
#pragma once

#include "optim/update_rule.h"

#include <memory>

namespace reprise {

std::unique_ptr<const UpdateRule> make_adafactor(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> make_muon(const OptimizerOptions& options);

}  // namespace reprise
