#include "ops/linear/weight.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

namespace reprise::ops {

namespace {

at::Tensor make(const WeightSource& source, at::ScalarType type) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return source.make(type);
}

}  // namespace

Weight::Weight(const at::Tensor& tensor) : tensor_(tensor) {}

Weight::Weight(std::shared_ptr<const WeightSource> source) : source_(std::move(source)) {}

std::vector<int64_t> Weight::sizes() const {
  return source_ == nullptr ? tensor_.sizes().vec() : std::vector{source_->out(), source_->in()};
}

at::Tensor Weight::for_product(at::ScalarType type) const {
  return source_ == nullptr ? tensor_ : make(*source_, type);
}

void SavedWeight::save(const Weight& weight) {
  source_ = weight.source_;
  if (source_ == nullptr) {
    tensor_ = saved_input(weight.tensor_);
  }
}

at::Tensor SavedWeight::unpack(at::ScalarType type) const {
  return source_ == nullptr ? tensor_.unpack() : make(*source_, type);
}

}  // namespace reprise::ops
