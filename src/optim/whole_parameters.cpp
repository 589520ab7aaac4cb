#include "optim/whole_parameters.h"

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

namespace reprise {

void check_is_whole(const TensorPart& part, OptimizerKind kind) {
  TORCH_CHECK(part.begin == 0 && part.values.numel() == c10::multiply_integers(part.shape),
              "[optim] ",
              name_of(kind),
              ": parameter \"",
              part.name,
              "\": expected all of it, because it is updated as a whole, got ",
              part.values.numel(),
              " of ",
              c10::multiply_integers(part.shape),
              " elements. Use ddp, or another optimizer");
}

at::Tensor shaped_grad(const ParameterState& state) {
  return state.parameter.grad().reshape(state.shape);
}

at::Tensor shaped_value(const ParameterState& state) {
  return state.value().view(state.shape);
}

}  // namespace reprise
