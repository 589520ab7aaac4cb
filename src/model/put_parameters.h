// Other tensors in the place of a model's parameters.
#pragma once

#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace reprise {

/// Makes each value the parameter of its name, on whatever device either is. Who held the parameter
/// before holds what is no longer part of the model: for models that nobody has seen yet.
void put_parameters(Model& model, const std::map<std::string, at::Tensor>& values);

}  // namespace reprise
