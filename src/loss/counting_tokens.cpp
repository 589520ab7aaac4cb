#include "loss/counting_tokens.h"

#include <reprise/loss/next_token.h>

#include <ATen/ATen.h>

namespace reprise {

CountingTokens::CountingTokens(const at::Tensor& targets, int64_t vocabulary)
    : shape_(targets.sizes().begin(), targets.sizes().end()) {
  const auto flat = targets.reshape({-1});
  const auto places = at::nonzero(flat != kIgnoredLabel).squeeze(1);
  if (places.size(0) == flat.size(0)) {
    targets_ = flat;
  } else {
    places_ = places;
    targets_ = flat.index_select(0, places);
  }
  if (count() == 0) {
    return;
  }
  // On a GPU an index out of range would end the process, far from its cause.
  const auto [least, most] = at::aminmax(targets_);
  const auto range = at::stack({least, most}).cpu();
  const auto* bounds = range.const_data_ptr<int64_t>();
  TORCH_CHECK(bounds[0] >= 0 && bounds[1] < vocabulary,
              "[head] expected targets from 0 to ",
              vocabulary - 1,
              ", or ",
              kIgnoredLabel,
              " to ignore one; found ",
              bounds[0],
              " to ",
              bounds[1]);
}

at::Tensor CountingTokens::rows_of(const at::Tensor& hidden) const {
  const auto rows = hidden.reshape({-1, hidden.size(-1)});
  return places_.defined() ? rows.index_select(0, places_) : rows;
}

at::Tensor CountingTokens::spread(const at::Tensor& values) const {
  if (!places_.defined()) {
    return values.view(shape_);
  }
  return at::zeros({c10::multiply_integers(shape_)}, values.options())
      .index_copy(0, places_, values)
      .view(shape_);
}

void check_head(const at::Tensor& hidden, const LinearHead& head, const at::Tensor& targets) {
  TORCH_CHECK(hidden.dim() >= 1 && hidden.sizes().slice(0, hidden.dim() - 1) == targets.sizes() &&
                  targets.scalar_type() == at::kLong,
              "[head] expected hidden (..., H) and int64 targets (...), got ",
              hidden.sizes(),
              " and ",
              targets.sizes(),
              " of ",
              targets.scalar_type());
  TORCH_CHECK(head.weight.defined() && head.weight.dim() == 2 && head.weight.size(0) > 0 &&
                  head.weight.size(1) == hidden.size(-1),
              "[head] expected a weight (V, ",
              hidden.size(-1),
              "), got ",
              head.weight.defined() ? c10::str(head.weight.sizes()) : "none");
  TORCH_CHECK(
      !head.bias.defined() || (head.bias.dim() == 1 && head.bias.size(0) == head.weight.size(0)),
      "[head] expected a bias (",
      head.weight.size(0),
      "), got ",
      head.bias.defined() ? c10::str(head.bias.sizes()) : "none");
  TORCH_CHECK(hidden.device() == head.weight.device() && hidden.device() == targets.device(),
              "[head] expected one device, got hidden on ",
              hidden.device(),
              ", the weight on ",
              head.weight.device(),
              " and targets on ",
              targets.device());
}

}  // namespace reprise
