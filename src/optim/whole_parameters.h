// What rules need that see whole parameters.
#pragma once

#include "optim/parameter_state.h"

#include <reprise/io/tensor_part.h>
#include <reprise/optim/optimizer.h>

namespace reprise {

/// Throws unless this process has all of the parameter.
void check_is_whole(const TensorPart& part, OptimizerKind kind);

/// The gradient and what is updated, with the parameter's shape.
at::Tensor shaped_grad(const ParameterState& state);
at::Tensor shaped_value(const ParameterState& state);

}  // namespace reprise
