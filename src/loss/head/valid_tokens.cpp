#include "loss/head/valid_tokens.h"

#include <reprise/loss/next_token.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>

namespace reprise {

namespace {

// Selects rows at distinct indices. Unlike index_select, backward copies instead of adding.
struct SelectRows : torch::autograd::Function<SelectRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& rows,
                            const at::Tensor& indices) {
    context->save_for_backward({indices});
    context->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, indices);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& selected = gradients[0];
    const auto indices = context->get_saved_variables()[0];
    const int64_t rows = context->saved_data.at("rows").toInt();
    return {
        at::zeros({rows, selected.size(1)}, selected.options()).index_copy_(0, indices, selected),
        at::Tensor()};
  }
};

TargetSummary summary_of_host(const at::Tensor& targets) {
  const auto values = targets.contiguous();
  TargetSummary summary;
  summary.add({values.const_data_ptr<int64_t>(), static_cast<size_t>(values.numel())});
  return summary;
}

// The only wait for the device in a pass over the head: tensor sizes depend on the number of valid
// tokens. The range is copied together with it.
TargetSummary summary_of_device(const at::Tensor& targets, const at::Tensor& is_valid) {
  using Limits = std::numeric_limits<int64_t>;
  const auto is_ignored = is_valid.logical_not();
  const auto numbers = at::stack({is_valid.sum(),
                                  targets.masked_fill(is_ignored, Limits::max()).min(),
                                  targets.masked_fill(is_ignored, Limits::min()).max()})
                           .cpu();
  const auto* values = numbers.const_data_ptr<int64_t>();
  return values[0] == 0 ? TargetSummary()
                        : TargetSummary{.count = values[0], .min = values[1], .max = values[2]};
}

// Note [Known targets on a GPU]
// With a wrong count, ignored labels would be used as rows of the head. The device checks the
// targets asynchronously with a few small kernels; reading them back would block the host until all
// earlier work is done. The checks are part of captured steps too, so they see every batch copied
// in.
void assert_known(const at::Tensor& targets,
                  const at::Tensor& is_valid,
                  const TargetSummary& known,
                  int64_t vocabulary) {
  const auto is_row = (targets >= 0).logical_and_(targets < vocabulary);
  // Every row index is valid, so if both counts are equal they are the same tokens.
  at::_assert_async((is_valid.sum() == known.count).logical_and_(is_row.sum() == known.count),
                    "[head] the targets do not match Targets::known");
}

bool is_within(const TargetSummary& found, const TargetSummary& known) {
  return found.count == known.count &&
         (found.count == 0 || (found.min >= known.min && found.max <= known.max));
}

TargetSummary summary_of(const at::Tensor& targets,
                         const at::Tensor& is_valid,
                         const std::optional<TargetSummary>& known) {
  if (!targets.is_cpu()) {
    TORCH_CHECK(!known || (known->count >= 0 && known->count <= targets.numel()),
                "[head] expected at most as many valid targets as there are targets, ",
                targets.numel(),
                "; found ",
                known->count,
                " (Targets::known)");
    return known ? *known : summary_of_device(targets, is_valid);
  }
  const auto summary = summary_of_host(targets);
  TORCH_CHECK(!known || is_within(summary, *known),
              "[head] expected ",
              known->count,
              " valid targets from ",
              known->min,
              " to ",
              known->max,
              ", according to Targets::known; found ",
              summary.count,
              ", from ",
              summary.min,
              " to ",
              summary.max);
  return summary;
}

}  // namespace

ValidTokens::ValidTokens(const Targets& targets, int64_t vocabulary)
    : shape_(targets.tokens.sizes().begin(), targets.tokens.sizes().end()) {
  targets_ = targets.tokens.reshape({-1});
  if (targets_.numel() == 0) {
    return;
  }
  const auto is_valid = targets_ != kIgnoredLabel;
  const auto [count, min, max] = summary_of(targets_, is_valid, targets.known);
  // On a GPU an index out of range would abort the process far from the cause.
  TORCH_CHECK(count == 0 || (min >= 0 && max < vocabulary),
              "[head] expected targets from 0 to ",
              vocabulary - 1,
              ", or ",
              kIgnoredLabel,
              " to ignore one; found ",
              min,
              " to ",
              max);
  if (targets.known && !targets_.is_cpu() && !targets_.is_meta()) {
    assert_known(targets_, is_valid, *targets.known, vocabulary);
  }
  if (count < targets_.size(0)) {
    indices_ = at::nonzero_static(is_valid, count)
                   .squeeze(1);  // nonzero() would wait for the device again
    targets_ = targets_.index_select(0, indices_);
  }
}

at::Tensor ValidTokens::rows_of(const at::Tensor& hidden) const {
  const auto rows = hidden.reshape({-1, hidden.size(-1)});
  return indices_.defined() ? SelectRows::apply(rows, indices_) : rows;
}

at::Tensor ValidTokens::scatter(const at::Tensor& values) const {
  if (!indices_.defined()) {
    return values.view(shape_);
  }
  return at::zeros({c10::multiply_integers(shape_)}, values.options())
      .index_copy(0, indices_, values)
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
