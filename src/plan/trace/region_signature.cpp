#include "plan/trace/region_signature.h"

#include "checkpoint/frame.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/StringUtil.h>

namespace reprise::planning {

TensorShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return {.dtype = tensor.scalar_type(), .sizes = detail::comparable_sizes(tensor).vec()};
}

bool has_shape(const at::Tensor& tensor, const TensorShape& shape) {
  if (!tensor.defined()) {
    return shape.dtype == c10::ScalarType::Undefined;
  }
  return tensor.scalar_type() == shape.dtype &&
         detail::comparable_sizes(tensor) == c10::IntArrayRef(shape.sizes);
}

std::string describe(const TensorShape& shape) {
  return shape.dtype == c10::ScalarType::Undefined
             ? "an undefined tensor"
             : c10::str(shape.dtype, " ", c10::IntArrayRef(shape.sizes));
}

std::string describe(const std::vector<TensorShape>& shapes) {
  std::string text;
  for (const TensorShape& shape : shapes) {
    text += (text.empty() ? "" : ", ") + describe(shape);
  }
  return text.empty() ? "no tensor" : text;
}

}  // namespace reprise::planning
