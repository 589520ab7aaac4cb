#include "loss/counting_tokens.h"

#include <reprise/loss/next_token.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>

namespace reprise {

namespace {

// Rows at places that differ from each other: unlike index_select's, its backward need not add.
struct SelectRows : torch::autograd::Function<SelectRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& rows,
                            const at::Tensor& places) {
    context->save_for_backward({places});
    context->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, places);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto& selected = gradients[0];
    const auto places = context->get_saved_variables()[0];
    const int64_t rows = context->saved_data.at("rows").toInt();
    return {
        at::zeros({rows, selected.size(1)}, selected.options()).index_copy_(0, places, selected),
        at::Tensor()};
  }
};

TargetSummary summary_of_host(const at::Tensor& targets) {
  const auto values = targets.contiguous();
  TargetSummary summary;
  summary.add({values.const_data_ptr<int64_t>(), static_cast<size_t>(values.numel())});
  return summary;
}

// The one wait for the device in a pass over the head: sizes of tensors depend on how many tokens
// count, and the host decides them. The range comes with it.
TargetSummary summary_of_device(const at::Tensor& targets, const at::Tensor& is_counting) {
  using Limits = std::numeric_limits<int64_t>;
  const auto is_ignored = is_counting.logical_not();
  const auto numbers = at::stack({is_counting.sum(),
                                  targets.masked_fill(is_ignored, Limits::max()).min(),
                                  targets.masked_fill(is_ignored, Limits::min()).max()})
                           .cpu();
  const auto* values = numbers.const_data_ptr<int64_t>();
  return values[0] == 0 ? TargetSummary()
                        : TargetSummary{.number = values[0], .least = values[1], .most = values[2]};
}

// Note [Known targets on a GPU]
// A wrong number would make rows of the head out of ignored labels. The device looks at them while
// the host goes on: a few small kernels, where asking would stop the host until all work before is
// done. They are a part of recorded steps too, and see every batch that is copied in.
void assert_known(const at::Tensor& targets,
                  const at::Tensor& is_counting,
                  const TargetSummary& known,
                  int64_t vocabulary) {
  const auto is_row = (targets >= 0).logical_and_(targets < vocabulary);
  // A row of the head counts, so where both are as many they are the same tokens.
  at::_assert_async((is_counting.sum() == known.number).logical_and_(is_row.sum() == known.number),
                    "[head] the targets are not what the host knows of them (Targets::known)");
}

bool is_within(const TargetSummary& found, const TargetSummary& known) {
  return found.number == known.number &&
         (found.number == 0 || (found.least >= known.least && found.most <= known.most));
}

TargetSummary summary_of(const at::Tensor& targets,
                         const at::Tensor& is_counting,
                         const std::optional<TargetSummary>& known) {
  if (!targets.is_cpu()) {
    TORCH_CHECK(!known || (known->number >= 0 && known->number <= targets.numel()),
                "[head] expected at most as many targets that count as there are, ",
                targets.numel(),
                "; the caller knows of ",
                known->number,
                " (Targets::known)");
    return known ? *known : summary_of_device(targets, is_counting);
  }
  const auto summary = summary_of_host(targets);
  TORCH_CHECK(!known || is_within(summary, *known),
              "[head] expected targets of which ",
              known->number,
              " count, from ",
              known->least,
              " to ",
              known->most,
              ", as the caller knows them (Targets::known); found ",
              summary.number,
              ", from ",
              summary.least,
              " to ",
              summary.most);
  return summary;
}

}  // namespace

CountingTokens::CountingTokens(const Targets& targets, int64_t vocabulary)
    : shape_(targets.tokens.sizes().begin(), targets.tokens.sizes().end()) {
  targets_ = targets.tokens.reshape({-1});
  if (targets_.numel() == 0) {
    return;
  }
  const auto is_counting = targets_ != kIgnoredLabel;
  const auto [number, least, most] = summary_of(targets_, is_counting, targets.known);
  // On a GPU an index out of range would end the process, far from its cause.
  TORCH_CHECK(number == 0 || (least >= 0 && most < vocabulary),
              "[head] expected targets from 0 to ",
              vocabulary - 1,
              ", or ",
              kIgnoredLabel,
              " to ignore one; found ",
              least,
              " to ",
              most);
  if (targets.known && !targets_.is_cpu() && !targets_.is_meta()) {
    assert_known(targets_, is_counting, *targets.known, vocabulary);
  }
  if (number < targets_.size(0)) {
    places_ = at::nonzero_static(is_counting, number).squeeze(1);  // nonzero would wait again
    targets_ = targets_.index_select(0, places_);
  }
}

at::Tensor CountingTokens::rows_of(const at::Tensor& hidden) const {
  const auto rows = hidden.reshape({-1, hidden.size(-1)});
  return places_.defined() ? SelectRows::apply(rows, places_) : rows;
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
