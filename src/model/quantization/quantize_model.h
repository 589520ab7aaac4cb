// Which layers of a model are quantised.
#pragma once

#include "model/layers/linear.h"

#include <reprise/model/quantization.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

/// The linear layers of a model, by path.
REPRISE_API std::vector<std::pair<std::string, std::shared_ptr<Linear>>> linears_of(
    const Model& model);

/// Whether the layer at this path is to be quantised: the head and skip_modules are not.
bool converts(const Model& model, const QuantizationConfig& config, const std::string& path);

/// Throws if a name in skip_modules matches no linear layer, since it would have no effect.
void check_skips(const Model& model, const QuantizationConfig& config);

}  // namespace reprise
