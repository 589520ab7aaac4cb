// Replaces the parameters of a model by other tensors.
#pragma once

#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace reprise {

/// Makes each value the parameter of its name; they may be on different devices. Earlier references
/// to the old parameters are then no longer part of the model, so use it only while loading.
void replace_parameters(Model& model, const std::map<std::string, at::Tensor>& values);

}  // namespace reprise
